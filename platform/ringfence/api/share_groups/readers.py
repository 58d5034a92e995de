"""Which connectors read which share group, and who may see or change it.

A grant's pattern matches share groups by name, like connectors. A connector's own group, `<group.id>-<connector>`, is
also covered by a grant on the connector. Naming another group in a configuration (`share.group`) gives no permission on
it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest

from ringfence.access.authorise import Forbidden, authorise, principal_of
from ringfence.access.principal import Principal, Verb
from ringfence.connectors.sdk.kafka_settings.share_group import GROUP, group_of
from ringfence.projection.models import Connector

_MOST_KNOWN = 10_000
_configured: dict[tuple[str, int], str | None] = {}


@dataclass(frozen=True, slots=True)
class Readers:
    """The connectors of every share group. worker_group: the cluster's `group.id`."""

    worker_group: str
    by_group: Mapping[str, Sequence[str]]

    def of(self, group: str) -> Sequence[str]:
        """Return the connectors that read this group, or would."""
        return self.by_group.get(group, ())

    def _own(self, group: str) -> list[str]:
        """Return the connectors that own this group by its name."""
        return [name for name in self.of(group) if group_of(self.worker_group, name, None) == group]

    def may(self, who: Principal, verb: Verb, group: str) -> bool:
        """Return whether the permission is granted on the group."""
        return who.may(verb, group) or any(who.may(verb, name) for name in self._own(group))

    def verbs_on(self, who: Principal, group: str) -> frozenset[Verb]:
        """Return the permissions that are granted on the group."""
        return frozenset(verb for verb in Verb if self.may(who, verb, group))

    def authorise(self, request: HttpRequest, verb: Verb, group: str) -> None:
        """Raise `Forbidden` unless the permission is granted on the group."""
        who = principal_of(request)
        if not self.may(who, verb, group):
            raise Forbidden(who, verb, group, kind="share group")

    def authorise_act(self, request: HttpRequest, group: str, *, offsets: bool) -> None:
        """Check an action, which also concerns the group's connectors. offsets: whether it changes their
        source offsets.
        """
        draft = getattr(request, "ringfence_draft", None)
        for name in self.of(group) or [""]:
            if draft is not None:
                draft.about(name)
        self.authorise(request, Verb.SHARE_GROUPS, group)
        if offsets:
            for name in self.of(group):
                authorise(request, Verb.OFFSETS, name)


def find_readers(worker_group: str) -> Readers:
    """Return the readers by the configurations in the database."""
    groups: dict[str, list[str]] = {}
    for name, configured in _configured_groups():
        groups.setdefault(group_of(worker_group, name, configured), []).append(name)
    return Readers(worker_group, groups)


def _configured_groups() -> Iterator[tuple[str, str | None]]:
    """Yield each connector's name and `share.group`. A configuration is decrypted once."""
    if len(_configured) > _MOST_KNOWN:
        _configured.clear()
    for row in Connector.objects.filter(known=True).order_by("name").only("name", "config"):
        key = (row.name, hash(row.config))
        if key not in _configured:
            _configured[key] = row.settings.get(GROUP)
        yield row.name, _configured[key]
