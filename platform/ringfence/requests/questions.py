"""What a web process asks any worker. Kafka, Spark and plugin code are behind it; no answer changes the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.requests import share_group_act
from ringfence.requests.group_questions import DescribeConsumerGroup, ListConsumerGroups
from ringfence.requests.question import READ_EARLY, REPLAY_EARLY, Config, Json
from ringfence.requests.question import Question as Question
from ringfence.requests.question import task_of as task_of
from ringfence.requests.topic_questions import DescribeTopics, FindOrigin, FindRecords, ReadRecords


@dataclass(frozen=True)
class ListPlugins(Question[list[Json]]):
    """Every installed plugin, as `GET /connector-plugins?connectorsOnly=false` lists them."""

    name = "list"


@dataclass(frozen=True)
class ConfigKeys(Question[list[Json]]):
    """The key infos of a plugin's own settings; `common`: of all that it takes.

    Refused with 404 for one that is not installed, with 400 where the version is another.
    """

    name = "config_keys"
    plugin: str
    common: bool = False
    version: str | None = None


@dataclass(frozen=True)
class Validate(Question[Json]):
    """Kafka Connect's validation object: name, error_count, groups, configs.

    java: whether a Java plugin may be asked; refused with 403 where the class is one and it may not.
    `ask_brokers`: preflight's certain failures are errors, too; without, it is quicker, as for a form on each change.
    """

    name = "validate"
    plugin: str
    config: Mapping[str, str | None]
    java: bool
    ask_brokers: bool = True


@dataclass(frozen=True)
class ReadOffsets(Question[list[Json]]):
    """The committed source offsets as a worker reads them from Kafka: those in a topic of the connector's own first."""

    name = "offsets"
    connector: str
    config: Config


@dataclass(frozen=True)
class Preflight(Question[list[Json]]):
    """The preflight checks of a configuration: name, result, message, remedy, key. `java`: as in `Validate`."""

    name = "preflight"
    config: Config
    java: bool


@dataclass(frozen=True)
class Preview(Question[Json]):
    """The first records of a configuration, or `{"busy": connector}`; see `engine.queries.previews`.

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
    """What transforms and converters make of a sample record, step by step; see `engine.plugins.trial`.

    java: as in `Validate`.
    """

    name = "try_transforms"
    config: Config
    record: Mapping[str, object]
    secret: Sequence[str]
    java: bool


@dataclass(frozen=True)
class DescribeTransactions(Question[list[Json]]):
    """What the coordinators know of the ids of tasks 0..tasks-1: id, task, state, open, producer_id, epoch, age_ms …

    earlier: the configurations of older generations that may be alive, perhaps on other clusters.
    """

    name = "transactions"
    connector: str
    tasks: int
    config: Config
    earlier: Sequence[Config] = ()


@dataclass(frozen=True)
class FindHanging(Question[list[Json]]):
    """Open transactions on a connector's topics that no coordinator knows (KIP-664)."""

    name = "hanging"
    connector: str
    tasks: int
    configs: Sequence[Config]
    topics: Sequence[str]


@dataclass(frozen=True)
class ReadLastRecords(Question[Json]):
    """The last records of a topic that a connector of this configuration writes to; see `engine.queries.topic_tail`."""

    name = "last_records"
    seconds = 13.0
    early = READ_EARLY
    topic: str
    config: Config
    committed_only: bool


@dataclass(frozen=True)
class ListShareGroups(Question[Json]):
    """The cluster's share groups, and its `group.id`; see `engine.queries.share_groups`."""

    name = "share_groups"
    seconds = 13.0
    early = READ_EARLY


@dataclass(frozen=True)
class DescribeShareGroup(Question[Json]):
    """One share group, with the state of the records in its partitions from number `skip` on; with `act`, what that
    would do. Refused with 404 where it is not there.
    """

    name = "share_group"
    seconds = 13.0
    early = READ_EARLY
    group: str
    act: share_group_act.Move | None = None
    skip: int = 0


@dataclass(frozen=True)
class FindArchived(Question[Json]):
    """Which records of a share group the broker has archived; see `engine.queries.share_state.find_archived`."""

    name = "share_archived"
    seconds = 13.0
    early = READ_EARLY
    group: str


@dataclass(frozen=True)
class ShareTimeline(Question[Json]):
    """The steps of one share-partition that are persisted; see `engine.queries.share_state`."""

    name = "share_timeline"
    seconds = 13.0
    early = READ_EARLY
    group: str
    topic: str
    partition: int


@dataclass(frozen=True)
class ListDeadLetters(Question[Json]):
    """A page of a connector's dead letters; see `engine.queries.dead_letters`. before: [partition, offset] each."""

    name = "dead_letters"
    early = READ_EARLY
    config: Config
    stage: str
    by: str
    before: Sequence[Sequence[int]] | None
    committed_only: bool


@dataclass(frozen=True)
class ReplayDeadLetters(Question[Json]):
    """Dead letters taken again. Not sent again by itself: the second would find only what the first one did.

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
    """Begin to count whether a connector was exactly once; what is found goes into its row (`history.ProofRun`).

    tasks: how many task numbers it has had; altered: its source offsets were changed by hand once. Not sent again by
    itself: the row says whether it has begun.
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
    ListPlugins, ConfigKeys, Validate, ReadOffsets, Preflight, Preview, TryTransforms, DescribeTransactions,
    FindHanging, ReadLastRecords, ListShareGroups, DescribeShareGroup,
    ShareTimeline, FindArchived, ListDeadLetters, ReplayDeadLetters, StartProof, ReadRecords, FindOrigin, FindRecords,
    DescribeTopics, ListConsumerGroups, DescribeConsumerGroup,
)  # fmt: skip
