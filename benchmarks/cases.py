"""The cases: who reads the file, with which converter, and where its transactions end."""

from dataclasses import dataclass
from pathlib import Path

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"

BOUNDARIES = ("interval", "poll")
INTERVAL_MS = 1000
BATCH = 2000

CONNECT, BATCHES, SINGLE, PLAIN, PROTOCOL = "connect", "batches", "single", "plain", "protocol"
TITLES = {
    CONNECT: "Kafka Connect, StringConverter",
    BATCHES: "Ringfence, RecordBatch (ByteArrayConverter)",
    SINGLE: "Ringfence, strings, StringConverter",
    PLAIN: "a bare librdkafka loop in Python",
    PROTOCOL: "a bare loop on Kafka's protocol in Python",
}
BARE = {PLAIN: "benchmarks.plain", PROTOCOL: "benchmarks.bare_protocol"}
"""Programs that are no connectors: yardsticks."""
KINDS = tuple(TITLES)
LONGER = 4
"""How many times longer the file is for cases that read the usual one within a few transactions."""

_CONVERTERS = {
    CONNECT: {"key.converter": _STRING, "value.converter": _STRING},
    BATCHES: {"key.converter": _BYTES, "value.converter": _BYTES},
    # A key converter that changes bytes would disable batches. The lines have no keys, so it costs nothing itself.
    SINGLE: {"key.converter": _JSON, "key.converter.schemas.enable": "false", "value.converter": _STRING},
}


@dataclass(frozen=True, slots=True)
class Case:
    """kind: one of KINDS; boundary: one of BOUNDARIES."""

    kind: str
    boundary: str

    def lines(self, count: int) -> int:
        """Return how many lines the case reads if the others read `count`."""
        return count * LONGER if self.boundary == "interval" and self.kind in (BATCHES, PLAIN, PROTOCOL) else count

    def config(self, file: Path, topic: str) -> dict[str, str]:
        """Return the connector's configuration: the same on both sides, except for the converters."""
        ends = {"transaction.boundary": self.boundary}
        if self.boundary == "interval":
            ends["transaction.boundary.interval.ms"] = str(INTERVAL_MS)
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(file),
            "topic": topic,
            "batch.size": str(BATCH),
            "exactly.once.support": "required",
            **ends,
            **_CONVERTERS[self.kind],
        }
