"""The questions of a web process to any worker, about Kafka, Spark and plugins. No answer changes the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.requests.commands import Move
from ringfence.requests.question import READ_EARLY, REPLAY_EARLY, Config, Json
from ringfence.requests.question import Question as Question
from ringfence.requests.question import task_of as task_of
from ringfence.requests.topic_questions import (
    DescribeConsumerGroup,
    DescribeTopics,
    FindOrigin,
    FindRecords,
    ListConsumerGroups,
    ReadRecords,
)


@dataclass(frozen=True)
class ListPlugins(Question[list[Json]]):
    """List every installed plugin, as `GET /connector-plugins?connectorsOnly=false` does."""

    name = "list"


@dataclass(frozen=True)
class ConfigKeys(Question[list[Json]]):
    """Return the key infos of a plugin's own settings; `common`: of all that it accepts.

    A plugin that is not installed is refused with 404, another version with 400.
    """

    name = "config_keys"
    plugin: str
    common: bool = False
    version: str | None = None


@dataclass(frozen=True)
class Validate(Question[Json]):
    """Return Kafka Connect's validation object: name, error_count, groups, configs.

    java: whether Java plugins are permitted; otherwise one is refused with 403. ask_brokers: certain failures of the
    preflight are errors, too; without it, the answer is quicker, as for a form on each change.
    """

    name = "validate"
    plugin: str
    config: Mapping[str, str | None]
    java: bool
    ask_brokers: bool = True


@dataclass(frozen=True)
class Examine(Question[Json | None]):
    """Return what a source answers to a test of the connection: `errors` by setting, `summary`, `proposals` by setting;
    None if its connector offers no test. The configuration may be incomplete. java: as in `Validate`.
    """

    name = "examine"
    config: Config
    java: bool


@dataclass(frozen=True)
class DescribeGuarantee(Question[dict[str, str]]):
    """Return what a connector guarantees with this configuration: `{"guarantee", "why"}`. Asks the plugin only."""

    name = "guarantee"
    seconds = 10.0
    config: Config


@dataclass(frozen=True)
class ReadOffsets(Question[list[Json]]):
    """Return the committed source offsets as a worker reads them from Kafka: the connector's own topic first."""

    name = "offsets"
    connector: str
    config: Config


@dataclass(frozen=True)
class Preflight(Question[list[Json]]):
    """Run the preflight checks of a configuration: name, result, message, remedy, key. java: as in `Validate`."""

    name = "preflight"
    config: Config
    java: bool


@dataclass(frozen=True)
class Preview(Question[Json]):
    """Return the first records of a configuration, or `{"busy": connector}`; see `engine.queries.previews`.

    bounds: records, bytes, seconds; fresh: from the source's beginning; java: as in `Validate`.
    """

    name = "preview"
    seconds = 40.0
    config: Config
    secret: Sequence[str]
    bounds: Mapping[str, float]
    fresh: bool
    java: bool


@dataclass(frozen=True)
class TryTransforms(Question[Json]):
    """Return what transforms and converters make of a sample record, step by step (`engine.plugins.transform_trial`).

    java: as in `Validate`.
    """

    name = "try_transforms"
    config: Config
    record: Mapping[str, object]
    secret: Sequence[str]
    java: bool


@dataclass(frozen=True)
class DescribeTransactions(Question[list[Json]]):
    """Return what the coordinators know of the ids of tasks 0..tasks-1: id, task, state, open, producer_id, epoch,
    age_ms …

    earlier: the configurations of older generations that may be alive, possibly on other clusters.
    """

    name = "transactions"
    connector: str
    tasks: int
    config: Config
    earlier: Sequence[Config] = ()


@dataclass(frozen=True)
class FindHanging(Question[list[Json]]):
    """Find open transactions on a connector's topics that no coordinator knows (KIP-664)."""

    name = "hanging"
    connector: str
    tasks: int
    configs: Sequence[Config]
    topics: Sequence[str]


@dataclass(frozen=True)
class ReadLastRecords(Question[Json]):
    """Return the last records of a topic that a connector with this configuration writes to; see
    `engine.queries.topic_tail`."""

    name = "last_records"
    seconds = 13.0
    early = READ_EARLY
    topic: str
    config: Config
    committed_only: bool


@dataclass(frozen=True)
class ListShareGroups(Question[Json]):
    """Return the cluster's share groups, and its `group.id`; see `engine.queries.share_groups`."""

    name = "share_groups"
    seconds = 13.0
    early = READ_EARLY


@dataclass(frozen=True)
class DescribeShareGroup(Question[Json]):
    """Return a share group, with the state of the records in its partitions from number `skip` on; with `act`, what
    that would do. A missing group is refused with 404.
    """

    name = "share_group"
    seconds = 13.0
    early = READ_EARLY
    group: str
    act: Move | None = None
    skip: int = 0


@dataclass(frozen=True)
class FindArchived(Question[Json]):
    """Return the records of a share group that the broker has archived; see
    `engine.queries.share_groups.find_archived`.
    """

    name = "share_archived"
    seconds = 13.0
    early = READ_EARLY
    group: str


@dataclass(frozen=True)
class ShareTimeline(Question[Json]):
    """Return the persisted steps of one share-partition; see `engine.queries.share_groups`."""

    name = "share_timeline"
    seconds = 13.0
    early = READ_EARLY
    group: str
    topic: str
    partition: int


@dataclass(frozen=True)
class ListDeadLetters(Question[Json]):
    """Return a page of a connector's dead letters; see `engine.queries.dead_letters`. before: [partition,
    offset] each.
    """

    name = "dead_letters"
    early = READ_EARLY
    config: Config
    stage: str
    by: str
    before: Sequence[Sequence[int]] | None
    committed_only: bool


@dataclass(frozen=True)
class ReplayDeadLetters(Question[Json]):
    """Replay dead letters. It is not repeated automatically: a second one would only find what the first one did.

    chosen: `places`, [partition, offset] each, or `stage` and `class` of all that match.
    """

    name = "replay"
    early = REPLAY_EARLY
    again = False
    config: Config
    chosen: Mapping[str, object]
    told: Mapping[str, str]
    secret: Sequence[str]


@dataclass(frozen=True)
class StartProof(Question[Json]):
    """Start to count whether a connector was exactly once; the result goes into its row (`history.ProofRun`).

    tasks: how many task numbers it has had; altered: whether its source offsets were ever altered by a user. It is not
    repeated automatically: the row says whether it has started.
    """

    name = "proof"
    seconds = 15.0
    again = False
    number: int
    config: Config
    tasks: int
    topics: Sequence[str]
    limit_seconds: float
    altered: bool


QUESTIONS: Final[tuple[type[Question[Any]], ...]] = (
    ListPlugins, ConfigKeys, Validate, Examine, DescribeGuarantee, ReadOffsets, Preflight, Preview, TryTransforms,
    DescribeTransactions, FindHanging, ReadLastRecords, ListShareGroups, DescribeShareGroup,
    ShareTimeline, FindArchived, ListDeadLetters, ReplayDeadLetters, StartProof, ReadRecords, FindOrigin, FindRecords,
    DescribeTopics, ListConsumerGroups, DescribeConsumerGroup,
)  # fmt: skip
