"""Updates the topics that connectors may write to when the grants of the accounts that saved them change.

Grants are in the database; the topics of a connector are in the config topic, where its tasks see them. The leader
compares the two and writes the differences. If an account is deleted or inactive, its connectors keep their topics,
since others may depend on them. If the database does not answer, nothing changes.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Final

from django.contrib.auth.models import User
from django.db import Error as DatabaseError
from django.db import close_old_connections

from ringfence.access.identify import rights_of
from ringfence.access.principal import Right, Verb
from ringfence.engine.leader.commands.command import Plan, Records, WriteResult
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.request import Refusal

log = logging.getLogger(__name__)

_SECONDS: Final = 1.0
_WRITE_SECONDS: Final = 10.0

Rights = Mapping[str, tuple[Right, ...]]
"""The rights by name of the account."""


def changes(grants: Iterable[TopicGrantRecord], rights: Rights) -> list[tuple[TopicGrantRecord, TopicGrantRecord]]:
    """Return the outdated records, each with its new version. Pure."""
    pairs = []
    for grant in grants:
        if grant.user not in rights:
            continue
        edit_rights = [right for right in rights[grant.user] if right.allows(Verb.EDIT, grant.connector)]
        now = grant.follow(topic for right in edit_rights for topic in right.topics)
        if now != grant:
            pairs.append((grant, now))
    return pairs


def read_rights(names: Iterable[str]) -> Rights:
    """Return the rights of those accounts that are active."""
    return {user.get_username(): rights_of(user) for user in User.objects.filter(username__in=names, is_active=True)}


def regrant(before: TopicGrantRecord, after: TopicGrantRecord) -> Plan:
    """Replace a connector's grant after its account's grants changed. The tasks follow it without a new generation."""

    def plan(state: ClusterState) -> Records:
        return [after] if state.connector(before.connector).topic_grant == before else []

    return plan


class GrantWatch:
    """Runs on a thread in each worker. It is active while that worker leads."""

    def __init__(
        self,
        leads: Callable[[], bool],
        state: Callable[[], ClusterState],
        submit: "Callable[[Plan, Deadline], Future[WriteResult]]",
    ) -> None:
        self._leads = leads
        self._state = state
        self._submit = submit
        self._last_state = ClusterState()
        """The state whose grants are as `_rights` say."""
        self._rights: Rights = {}
        self._grants: dict[ConnectorName, TopicGrantRecord] = {}
        """Those that follow an account's."""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        while not stop.wait(_SECONDS):
            if not self._leads():
                continue
            try:
                self.look()
            except (Refusal, DatabaseError, TimeoutError) as error:
                log.info("The topics of grants are compared again: %s", error)
            finally:
                close_old_connections()

    def look(self) -> None:
        """Compare and write once. Raises `Refusal` if this worker no longer leads, or if the write fails."""
        state = self._state()
        names = state.changes_since(self._last_state)
        for name in names:
            grant = state.connector(name).topic_grant if name in state else None
            if grant is not None and grant.user:
                self._grants[name] = grant
            else:
                self._grants.pop(name, None)
        rights = read_rights({grant.user for grant in self._grants.values()}) if self._grants else {}
        users = {user for user, now in rights.items() if self._rights.get(user) != now}
        grants = [grant for name, grant in self._grants.items() if name in names or grant.user in users]
        for before, after in changes(grants, rights):
            log.info(
                "Connector %s may write to %s now, as %s may", after.connector, str(after) or "all topics", after.user
            )
            self._submit(regrant(before, after), Deadline.after(_WRITE_SECONDS)).result(_WRITE_SECONDS)
        self._last_state, self._rights = state, rights
