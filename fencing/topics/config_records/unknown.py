"""Records with keys that neither Ringfence nor Kafka Connect 4.3 writes. They are kept, with a warning in the log."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringfence.fencing.topics.config_record import ConfigRecord, Fields

if TYPE_CHECKING:
    from ringfence.fencing.topics.cluster_state import Fold


@dataclass(frozen=True, slots=True)
class UnknownKey(ConfigRecord):
    """A record with an unknown key. It is never written."""

    key: str

    PREFIXES = ()

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "UnknownKey":
        return cls(prefix + rest)

    def to_key(self) -> str:
        return self.key

    def to_value(self) -> Fields | None:
        raise ValueError(f"a record with the unknown key {self.key!r} is never written")

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.unknown.add(self.key)
