"""A configuration as the value of a config-topic record, in plain text or encrypted. Pure.

In plain text it has Kafka Connect's form, `{"properties": {…}}`; encrypted, `{"clear": {…}, "sealed": "<text>"}`. The
text holds all settings except those of `is_clear` (`fencing.topics.config_encryption`). An encrypted value has no
`properties` on purpose: Kafka Connect and earlier versions refuse such a record, rather than run a connector with half
of its configuration.

`"of": <offset>` says that the record was only written again to be under another key. It stands for the one at that
offset, so nothing is newer than before, and no task starts again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ringfence.fencing.topics.config_record import Fields, parse_integer, parse_strings

CLEAR: Final = frozenset(
    {
        "name",
        "connector.class",
        "tasks.max",
        "task.class",
        "topic",
        "topics",
        "offsets.storage.topic",
        "errors.deadletterqueue.topic.name",
    }
)
"""Names of settings without secrets. Tasks, which have no key, look for offsets topics; users want to recognise a
record.
"""
_ADDRESSES: Final = "bootstrap.servers"

NOW: Final = -1


def is_clear(name: str) -> bool:
    """Return whether the setting with this name stays in plain text in an encrypted configuration."""
    return name in CLEAR or name.endswith(_ADDRESSES)


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """config: whole, or what is clear of it where `ciphertext` holds the rest; of: see above, NOW for the record's
    own.
    """

    config: Mapping[str, str] = field(repr=False)
    ciphertext: str = ""
    of: int = NOW

    @classmethod
    def parse(cls, value: Fields) -> "ConfigValue":
        """Raises KeyError, TypeError or ValueError."""
        of = parse_integer(value, "of") if "of" in value else NOW
        if "sealed" not in value:
            return cls(parse_strings(value["properties"]), of=of)
        ciphertext = value["sealed"]
        if not isinstance(ciphertext, str) or not ciphertext:
            raise TypeError("sealed: a string is expected")
        return cls(parse_strings(value["clear"]), ciphertext, of)

    def to_fields(self) -> Fields:
        fields: dict[str, object] = {"properties": dict(self.config)}
        if self.ciphertext:
            fields = {"clear": dict(self.config), "sealed": self.ciphertext}
        return fields if self.of == NOW else {**fields, "of": self.of}

    def stands_at(self, offset: int) -> int:
        """Return the offset that the configuration counts from, for a record at this offset."""
        return offset if self.of == NOW else min(self.of, offset)
