"""Settings of connectors that people bring from elsewhere: older names, and those that have no effect here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

NO_EFFECT: Final = "it has no effect here. Remove it."


@dataclass(frozen=True, slots=True)
class ForeignNames:
    """What else than its own settings a connector's configuration may hold.

    renamed: present names by older ones, of settings, and of their beginnings and ends; values: present values by
    setting and older value; ignored: why a setting has no effect, and what to do; families: prefixes of settings that
    the connector passes on.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    renamed_prefixes: Mapping[str, str] = field(default_factory=dict)
    renamed_suffixes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    ignored_prefixes: Mapping[str, str] = field(default_factory=dict)
    families: tuple[str, ...] = ()

    def find_present_name(self, name: str) -> str:
        """Return the present name of an older one; "" if the name is not an older one."""
        prefixes, suffixes = self.renamed_prefixes.items(), self.renamed_suffixes.items()
        by_prefix = (now + name.removeprefix(old) for old, now in prefixes if name.startswith(old))
        by_suffix = (name.removesuffix(old) + now for old, now in suffixes if name.endswith(old))
        return self.renamed.get(name) or next(by_prefix, "") or next(by_suffix, "")

    def explain_ignored(self, name: str) -> str:
        """Return why a setting has no effect, and what to do; "" if nothing is known about it."""
        by_prefix = (text for prefix, text in self.ignored_prefixes.items() if name.startswith(prefix))
        return self.ignored.get(name) or next(by_prefix, "")


_NAMES: Final = {
    "collection.blacklist": "collection.exclude.list",
    "collection.whitelist": "collection.include.list",
    "column.blacklist": "column.exclude.list",
    "column.whitelist": "column.include.list",
    "database.blacklist": "database.exclude.list",
    "database.history": "schema.history.internal",
    "database.server.name": "topic.prefix",
    "database.whitelist": "database.include.list",
    "mongodb.hosts": "mongodb.connection.string",
    "mongodb.name": "topic.prefix",
    "sanitize.field.names": "field.name.adjustment.mode",
    "schema.blacklist": "schema.exclude.list",
    "schema.whitelist": "schema.include.list",
    "slot.drop_on_stop": "slot.drop.on.stop",
    "table.blacklist": "table.exclude.list",
    "table.whitelist": "table.include.list",
    "toasted.value.placeholder": "unavailable.value.placeholder",
    "truncate.handling.mode": "skipped.operations",
}
"""Debezium's names up to 1.9 and their present ones. Debezium 2 and later ignore or refuse the former."""

_PREFIXES: Final = {"database.history.": "schema.history.internal."}

_SUFFIXES: Final = {
    ".delete.handling.mode": ".delete.tombstone.handling.mode",
    ".drop.tombstones": ".delete.tombstone.handling.mode",
}
"""Older names of settings of ExtractNewRecordState, after the transform's own."""

_VALUES: Final = {
    ("plugin.name", "wal2json"): "pgoutput",
    ("plugin.name", "wal2json_rds"): "pgoutput",
    ("plugin.name", "wal2json_streaming"): "pgoutput",
    ("snapshot.mode", "exported"): "initial",
    ("snapshot.mode", "never"): "no_data",
    ("snapshot.mode", "schema_only"): "no_data",
}
"""Values that Debezium 3 has no more, and what they are called now."""

DEBEZIUM: Final = ForeignNames(_NAMES, _PREFIXES, _SUFFIXES, _VALUES)
"""Those of all connectors of Debezium."""
