"""What the rules of alerts see: connectors, tasks, failures and the cluster at one moment."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """One task of the newest generation. Times are milliseconds, 0 for never.

    retrying_ms: since when its source or Kafka refuses; refusal: the message, without secrets. answered_ms: when its
    source last answered.
    """

    connector: str
    number: int
    state: str
    since_ms: int
    polled_ms: int
    open_since_ms: int
    trace: str = ""
    committed_ms: int = 0
    retrying_ms: int = 0
    refusal: str = ""
    refused_by_kafka: bool = False
    answered_ms: int = 0
    data_as_of_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """round_failed_ms: since when the fencing round that its tasks wait for fails; 0 if none does.

    stalled: as on the pages, nothing was moved for longer than usual. skipped, dead_letters: of the last hour;
    bad_since_ms: since when there are any. not_running_ms: since when its known health is WAITING or UNKNOWN, 0 if it
    is not; health, reason: as on the pages.
    """

    name: str
    state: str
    target: str
    since_ms: int
    round_failed_ms: int = 0
    message: str = ""
    stalled: bool = False
    skipped: int = 0
    dead_letters: int = 0
    bad_since_ms: int = 0
    not_running_ms: int = 0
    health: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """A failure that lasts, see `alerts.conditions`. began_ms, failed_ms: of its first and its newest failure."""

    subject: str
    connector: str
    began_ms: int
    failed_ms: int
    failures: int
    summary: str


@dataclass(frozen=True, slots=True)
class OverLimit:
    """A source metric that is above its limit: since when, and its description."""

    connector: str
    subject: str
    summary: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class ForeignRecords:
    """Records of the config topic about one connector ("" for none) that no leader wrote. summary: of the newest."""

    connector: str
    count: int
    since_ms: int
    summary: str


@dataclass(frozen=True, slots=True)
class ReplacedTopic:
    """A connector's topic that was deleted and created again."""

    connector: str
    topic: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class ClusterProblem:
    """Something that does not answer, as at the head of each page. key: stays the same as long as it lasts."""

    key: str
    summary: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster at one moment. leaderless_ms: since when there is no leader; 0 if there is one.

    topics_lost: why the cluster has stopped since `topics_lost_ms`, "" if it has not.
    """

    now_ms: int
    connectors: tuple[ConnectorSnapshot, ...] = ()
    tasks: tuple[TaskSnapshot, ...] = ()
    leaderless_ms: int = 0
    topics_lost: str = ""
    topics_lost_ms: int = 0
    episodes: tuple[Episode, ...] = ()
    over_limits: tuple[OverLimit, ...] = ()
    foreign_records: tuple[ForeignRecords, ...] = ()
    problems: tuple[ClusterProblem, ...] = ()
    replaced_topics: tuple[ReplacedTopic, ...] = ()
