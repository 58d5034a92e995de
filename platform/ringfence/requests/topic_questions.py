"""The questions of a web process to a worker about topics and their records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringfence.requests.question import READ_EARLY, Json, Question
from ringfence.requests.request import Answer


@dataclass(frozen=True)
class ListConsumerGroups(Question[Json]):
    """List the groups whose name contains this text, with their lag in each topic; `topic`: only those that read it."""

    name = "consumer_groups"
    seconds = 13.0
    early = READ_EARLY
    search: str = ""
    topic: str = ""


@dataclass(frozen=True)
class DescribeConsumerGroup(Question[Json]):
    """Return its members, its offsets and the transactions that it waits for. A missing group is refused with 404."""

    name = "consumer_group"
    seconds = 13.0
    early = READ_EARLY
    group: str


@dataclass(frozen=True)
class TopicQuestion(Question[Answer]):
    """A question about one topic, of the cluster that the connector `via` writes to; "" for the workers' own.

    writers: the connectors that write to it, with `name`, `config`, `secret` (names of settings) and `topics` (all that
    they write to). internal: whether the platform's and Kafka's own topics are permitted.
    """

    seconds = 13.0
    early = READ_EARLY
    topic: str
    via: str
    writers: Sequence[Mapping[str, object]]
    internal: bool

    @property
    def place(self) -> "TopicPlace":
        return TopicPlace(self.topic, self.via, self.writers, self.internal)


@dataclass(frozen=True)
class TopicPlace:
    """The topic, and its writers: see `TopicQuestion`."""

    topic: str
    via: str
    writers: Sequence[Mapping[str, object]]
    internal: bool


@dataclass(frozen=True)
class ReadRecords(TopicQuestion[Json]):
    """Return a page of records. start: `from` (earliest, latest, offset, time), `value`, `cursor` (offset of each
    partition).

    key: the exact key, None for any; contains: text in key, value or a header; where: see `engine.browsing.expression`.
    registry: the address of a Schema Registry, "" for the one that the connector's converter names.
    """

    name = "records"
    start: Mapping[str, object]
    partitions: Sequence[int] | None
    records: int
    committed_only: bool
    key: str | None = None
    contains: str = ""
    where: str = ""
    registry: str = ""


@dataclass(frozen=True)
class FindOrigin(TopicQuestion[Json]):
    """Find where a record came from; see `engine.browsing.origins`."""

    name = "origin"
    partition: int
    offset: int


@dataclass(frozen=True)
class FindRecords(TopicQuestion[Json]):
    """Find the records of a source offset that was committed at about that time. It takes one writer."""

    name = "records_of_offset"
    partition: Mapping[str, object]
    offset: Mapping[str, object]
    time_ms: int


@dataclass(frozen=True)
class DescribeTopics(Question[Json]):
    """Return the names of all topics of the workers' cluster, or the details of those with these names."""

    name = "topics"
    seconds = 13.0
    early = READ_EARLY
    names: Sequence[str] | None = None
