"""The jobs of `python -m benchmarks streams`: both sides run them with the same configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from benchmarks.stand import CONNECT, OURS

INTERVAL_MS: Final = 1000
_CONVERTERS: Final = "org.apache.kafka.connect."
BYTES: Final = {
    "key.converter": f"{_CONVERTERS}converters.ByteArrayConverter",
    "value.converter": f"{_CONVERTERS}converters.ByteArrayConverter",
}
WHOLE: Final = {**BYTES, "header.converter": f"{_CONVERTERS}converters.ByteArrayConverter"}
"""Nothing is changed, headers neither: KafkaSource passes on the record batches of its source."""
_TRANSFORMS: Final = f"{_CONVERTERS}transforms."
SINGLE: Final = {
    **BYTES,
    "transforms": "route",
    "transforms.route.type": f"{_TRANSFORMS}RegexRouter",
    "transforms.route.regex": "no topic of that name",
    "transforms.route.replacement": "no matter what",
}
"""A transform has to see each record, although it changes none."""
CHAIN: Final = {
    "key.converter": f"{_CONVERTERS}storage.StringConverter",
    "value.converter": f"{_CONVERTERS}json.JsonConverter",
    "value.converter.schemas.enable": "true",
    "transforms": "hoist,origin,rename",
    "transforms.hoist.type": f"{_TRANSFORMS}HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.origin.type": f"{_TRANSFORMS}InsertField$Value",
    "transforms.origin.static.field": "origin",
    "transforms.origin.static.value": "benchmark",
    "transforms.rename.type": f"{_TRANSFORMS}ReplaceField$Value",
    "transforms.rename.renames": "line:text",
}
"""JSON with its schema in every record, after three transforms that turn a line into a struct."""


@dataclass(frozen=True, slots=True)
class Job:
    """count: records for Kafka Connect; Ringfence copies `longer` times as many, since it is done with those within a
    few transactions. size: bytes of each. input: `topic`, with `partitions` partitions, or `file`. more:
    configuration.

    least: the target, as a multiple of Kafka Connect's records/s.
    """

    name: str
    title: str
    input: str
    count: int
    size: int
    least: float
    tasks: int = 1
    partitions: int = 1
    boundary: str = "interval"
    more: Mapping[str, str] = field(default_factory=dict, hash=False)
    longer: int = 4

    def records(self, side: str) -> int:
        """Return how many records a side copies."""
        return self.count * self.longer if side == OURS else self.count

    def config(self, side: str, bootstrap: str, input_name: str, topic: str) -> dict[str, str]:
        """input_name: the input topic, or the file. topic: the output topic."""
        ends = {"transaction.boundary": self.boundary}
        if self.boundary == "interval":
            ends["transaction.boundary.interval.ms"] = str(INTERVAL_MS)
        common = {"tasks.max": str(self.tasks), "exactly.once.support": "required", **ends, **self.more}
        if self.input == "file":
            return {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "file": input_name,
                "topic": topic,
                "batch.size": "2000",
                **common,
            }
        alias, _, name = topic.partition(".")
        assert name == input_name
        mirror = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": alias,
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": bootstrap,
            "target.cluster.bootstrap.servers": bootstrap,
            "topics": input_name,
            "replication.factor": "1",
            **common,
        }
        return {**mirror, **_MIRROR} if side == CONNECT else mirror


_MIRROR: Final = {
    # Required for exactly once with MirrorMaker 2; ours reads like this by default.
    "source.consumer.isolation.level": "read_committed",
    # MirrorMaker's other work, which ours does not do, is switched off, so that only the copying is compared.
    "emit.offset-syncs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
}

JOBS: Final = (
    Job("whole-100", "Kafka to Kafka, 100 B, whole batches", "topic", 2_500_000, 100, 10.0, more=WHOLE),
    Job("whole-1k", "Kafka to Kafka, 1 kB, whole batches", "topic", 1_000_000, 1000, 8.0, more=WHOLE),
    Job("copy-100", "Kafka to Kafka, 100 B", "topic", 2_500_000, 100, 4.0, more=BYTES),
    Job("copy-1k", "Kafka to Kafka, 1 kB", "topic", 1_000_000, 1000, 6.0, more=BYTES),
    Job("single-100", "Kafka to Kafka, 100 B, record by record", "topic", 2_500_000, 100, 4.0, more=SINGLE),
    Job("single-1k", "Kafka to Kafka, 1 kB, record by record", "topic", 1_000_000, 1000, 6.0, more=SINGLE),
    Job("copy-3", "Kafka to Kafka, 100 B, 3 tasks", "topic", 2_500_000, 100, 2.0, tasks=3, partitions=3, more=BYTES),
    Job("copy-poll", "Kafka to Kafka, 100 B, `poll`", "topic", 1_000_000, 100, 2.0, boundary="poll", more=BYTES),
    Job("chain", "file, three transforms, JSON with schema", "file", 1_000_000, 100, 3.0, more=CHAIN),
)
SIDES: Final = (CONNECT, OURS)
