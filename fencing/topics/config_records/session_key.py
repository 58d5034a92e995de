"""`session-key`: the key that signs the cluster's internal requests (KIP-507)."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ringfence.fencing.topics.config_record import ConfigRecord, Fields, parse_integer

if TYPE_CHECKING:
    from ringfence.fencing.topics.cluster_state import Fold

SESSION_KEY: Final = b"session-key"


@dataclass(frozen=True, slots=True)
class SessionKeyRecord(ConfigRecord):
    """`key`: base64, a secret; "" where only `ciphertext` holds it. Then Kafka Connect makes a key of its own."""

    key: str = field(repr=False)
    algorithm: str
    created_ms: int
    ciphertext: str = field(default="", repr=False)

    PREFIXES = (SESSION_KEY.decode(),)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "SessionKeyRecord | None":
        if rest or value is None:
            return None
        created_ms = parse_integer(value, "creation-timestamp")
        if "sealed" in value:
            return cls("", str(value["algorithm"]), created_ms, str(value["sealed"]))
        return cls(str(value["key"]), str(value["algorithm"]), created_ms)

    def to_key(self) -> str:
        return SESSION_KEY.decode()

    def to_value(self) -> Fields:
        key = {"sealed": self.ciphertext} if self.ciphertext else {"key": self.key}
        return {**key, "algorithm": self.algorithm, "creation-timestamp": self.created_ms}

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.session_key = self
