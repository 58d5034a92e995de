"""The current state of what a write may change of a connector, from the database."""

import json
from dataclasses import dataclass, field
from typing import Any

from ringfence.access.verbs import Verb
from ringfence.http.masking import Masker
from ringfence.projection import committed_offsets
from ringfence.projection.committed_offsets import TooManyOffsets
from ringfence.projection.models import Connector

SHOWN = 200
"""The most source offsets and changed keys that an entry lists. It counts all of them."""


@dataclass(frozen=True, slots=True)
class AuditContext:
    """display: for the trail, with masked secrets, None if there is no such connector. clear: only for comparison."""

    display: dict[str, Any] | None
    clear: dict[str, Any] = field(default_factory=dict, repr=False)

    def changed_keys(self, after: "AuditContext") -> list[str]:
        """Return the keys whose values differ, including secret ones."""
        keys = self.clear.keys() | after.clear.keys()
        return sorted(key for key in keys if self.clear.get(key) != after.clear.get(key))[:SHOWN]


def facts(verb: Verb, name: str) -> AuditContext:
    """Return what writes with this permission change: configuration, target state, or source offsets."""
    row = Connector.objects.filter(name=name, known=True).first()
    if verb in (Verb.OFFSETS, Verb.SHARE_GROUPS):
        return _offsets(name)
    if row is None:
        return AuditContext(None)
    state = {"target": row.target, "generation": row.generation}
    if verb in (Verb.EDIT, Verb.DELETE):
        config = Masker([row.class_name]).mask(row.settings)
        return AuditContext({"config": config, "target": row.target}, dict(row.settings))
    return AuditContext(state, {"target": row.target})


def _offsets(name: str) -> AuditContext:
    try:
        rows = committed_offsets.read(name)
    except TooManyOffsets:
        return AuditContext({"count": committed_offsets.count(name)})
    entries = [{"partition": json.loads(partition), "offset": json.loads(offset)} for partition, offset in rows[:SHOWN]]
    return AuditContext({"offsets": entries, "count": len(rows)}, dict(rows))
