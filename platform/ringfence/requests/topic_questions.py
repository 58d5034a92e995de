"""What a web process asks a worker about topics and their records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringfence.requests.question import READ_EARLY, Json, Question
from ringfence.requests.request import Answer


@dataclass(frozen=True)
class TopicQuestion(Question[Answer]):
    """About one topic, of the cluster that the connector `via` writes to; "" for the workers' own.

    writers: the connectors that write there, with `name`, `config`, `secret` (names of settings) and `topics` (all
    that they write to). internal: also where it is the platform's or Kafka's own.
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
    """Which topic, and for whom: see `TopicQuestion`."""

    topic: str
    via: str
    writers: Sequence[Mapping[str, object]]
    internal: bool


@dataclass(frozen=True)
class ReadRecords(TopicQuestion[Json]):
    """A page of records. start: `from` (earliest, latest, offset, time), `value`, `cursor` (offset of each partition).

    key: exactly that one, None for any; contains: in key, value or a header; where: see `engine.browsing.expression`.
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
    """Where a record came from; see `engine.browsing.origins`."""

    name = "origin"
    partition: int
    offset: int


@dataclass(frozen=True)
class FindRecords(TopicQuestion[Json]):
    """The records that came with a source offset, which was committed at about that time. One writer."""

    name = "records_of_offset"
    partition: Mapping[str, object]
    offset: Mapping[str, object]
    time_ms: int


@dataclass(frozen=True)
class DescribeTopics(Question[Json]):
    """Of the workers' cluster: every topic's name, or what there is in those of these names."""

    name = "topics"
    seconds = 13.0
    early = READ_EARLY
    names: Sequence[str] | None = None
