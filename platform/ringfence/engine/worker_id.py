"""Makes sure that only one live worker has an id: a second one refuses to start, or waits for the end of a dead one."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock, Deadline
from ringfence.fencing.errors import Invalid, Retriable
from ringfence.fencing.ids import Incarnation, parse_member_client_id

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 180.0
_BACKOFF: Final = Backoff(0.1, 2.0)
_LOOK_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 5.0


class Member(Protocol):
    """A member of the workers' group."""

    @property
    def client_id(self) -> str: ...

    @property
    def topics(self) -> Iterable[str]: ...


def await_free_id(
    worker: str,
    group: str,
    config_topic: str,
    session_s: float,
    members: Callable[[], Iterable[Member]],
    stop: threading.Event,
    clock: Clock = SYSTEM_CLOCK,
    remove_ended: Callable[[Incarnation], None] = lambda _incarnation: None,
) -> None:
    """Return as soon as no member of the group has the id. Raises `Invalid` if a live worker has it.

    remove_ended: called once for each incarnation with the id, to take it out of the group if its process has ended.
    Another machine's dead worker is listed until its session expires. A broker that restarts begins all sessions again,
    and then this wait begins again, too. Raises `Retriable` if the group cannot be described for three minutes.
    """
    patience, failures = Deadline.after(PATIENCE_SECONDS, clock), 0
    held_until: Deadline | None = None
    tried: set[Incarnation] = set()
    while True:
        try:
            group_members = list(members())
        except Retriable as error:
            if patience.expired:
                raise
            if not failures:
                log.info("The worker waits for its group: %s", error)
            held_until, failures = None, failures + 1
            stop.wait(_BACKOFF.pause(failures))
            continue
        failures = 0
        _check(group_members, group, config_topic)
        client_ids = [parse_member_client_id(member.client_id) for member in group_members]
        incarnations = {client_id[1] for client_id in client_ids if client_id and client_id[0] == worker}
        if not incarnations:
            return
        if untried := incarnations - tried:
            tried |= untried
            for incarnation in untried:
                remove_ended(incarnation)
            continue
        held_until = held_until or Deadline.after(session_s + _GRACE_SECONDS, clock)
        if held_until.expired:
            raise Invalid(
                f"A live worker in group {group} already has the id {worker}: give this one another with --id, or "
                "stop that one"
            )
        stop.wait(_LOOK_SECONDS)


def _check(members: Iterable[Member], group: str, config_topic: str) -> None:
    strangers = [member.client_id for member in members if parse_member_client_id(member.client_id) is None]
    if strangers:
        raise Invalid(
            f"Group {group} has members that are not Ringfence workers ({strangers[0]}): give this cluster another "
            "group.id, or stop them first"
        )
    elsewhere = {topic for member in members for topic in member.topics} - {config_topic}
    if elsewhere:
        raise Invalid(
            f"Group {group} works on topic {sorted(elsewhere)[0]}, this worker is set to {config_topic}: give both "
            "the same config.storage.topic, or another group.id"
        )
