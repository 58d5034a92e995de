"""The questions of a web process to any worker, about Kafka, Spark and plugins. No answer changes the cluster.

One class for each, with its fields and its answer. A web process makes one and sends it (`dispatch.ask`), and a worker
answers it (`celery_tasks`). So this module loads without Kafka's clients: what needs them is imported in the answers.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ringfence.engine.leader.commands.offsets import Move
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName
from ringfence.requests.request import Answer, Question, Refusal

if TYPE_CHECKING:
    from ringfence.engine.celery_tasks import Services

Json = dict[str, Any]
Config = Mapping[str, str]

READ_EARLY: Final = 3.0
REPLAY_EARLY: Final = 5.0
_EXAMINATION_SECONDS: Final = 22.0
"""For what `SourceConnector.examine` may take, and the start of a process."""


class WorkerQuestion(Question[Answer]):
    """A question that a worker answers."""

    @abstractmethod
    def answer(self, services: "Services", limit: Deadline) -> object:
        """Return its answer, a JSON value. Raises `Refusal` and `PluginError`."""


@dataclass(frozen=True)
class ListPlugins(WorkerQuestion[list[Json]]):
    """List every installed plugin, as `GET /connector-plugins?connectorsOnly=false` does."""

    name = "list"

    def answer(self, services: "Services", limit: Deadline) -> object:
        return services.plugins.plugins(limit.slice(services.plugins.call_seconds))


@dataclass(frozen=True)
class ConfigKeys(WorkerQuestion[list[Json]]):
    """Return the key infos of a plugin's own settings; `common`: of all that it accepts.

    A plugin that is not installed is refused with 404, another version with 400.
    """

    name = "config_keys"
    plugin: str
    common: bool = False
    version: str | None = None

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.plugins.calls import ReadConfigKeys

        timeout = limit.slice(services.plugins.call_seconds)
        return services.plugins.ask(ReadConfigKeys(self.plugin, common=self.common, version=self.version), timeout)


@dataclass(frozen=True)
class Validate(WorkerQuestion[Json]):
    """Return Kafka Connect's validation object: name, error_count, groups, configs.

    java: whether Java plugins are permitted; otherwise one is refused with 403. ask_brokers: certain failures of the
    preflight are errors, too; without it, the answer is quicker, as for a form on each change.
    """

    name = "validate"
    plugin: str
    config: Mapping[str, str | None]
    java: bool
    ask_brokers: bool = True

    def answer(self, services: "Services", limit: Deadline) -> object:
        return services.validation.validate(
            self.plugin, self.config, limit, java=self.java, ask_brokers=self.ask_brokers
        )


@dataclass(frozen=True)
class Examine(WorkerQuestion[Json | None]):
    """Return what a source answers to a test of the connection: `errors` by setting, `summary`, `proposals` by setting;
    None if its connector offers no test. The configuration may be incomplete. java: as in `Validate`.
    """

    name = "examine"
    config: Config
    java: bool

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.plugins.calls import ExamineSource
        from ringfence.engine.preflight.cluster_checks import complete_examination

        services.plugins.check_permission(self.config.get("connector.class", "").strip(), limit, java=self.java)
        examination = services.plugins.ask(ExamineSource(self.config), limit.slice(_EXAMINATION_SECONDS))
        return examination and complete_examination(examination, self.config, services.config)


@dataclass(frozen=True)
class DescribeGuarantee(WorkerQuestion[dict[str, str]]):
    """Return what a connector guarantees with this configuration: `{"guarantee", "why"}`. Asks the plugin only."""

    name = "guarantee"
    seconds = 10.0
    config: Config

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.plugins.calls import ReadGuarantee

        timeout = limit.slice(services.plugins.call_seconds)
        return services.plugins.ask(ReadGuarantee(self.config, exactly_once=services.config.mode == "enabled"), timeout)


@dataclass(frozen=True)
class ReadOffsets(WorkerQuestion[list[Json]]):
    """Return the committed source offsets as a worker reads them from Kafka: the connector's own topic first."""

    name = "offsets"
    connector: str
    config: Config

    def answer(self, services: "Services", limit: Deadline) -> object:
        try:
            offsets = services.offsets.view(ConnectorName(self.connector), self.config, limit)
        except FencingError as error:
            raise Refusal(500, f"The offsets of connector {self.connector} cannot be read now: {error}") from error
        return [{"partition": each.partition, "offset": each.offset} for each in offsets]


@dataclass(frozen=True)
class Preflight(WorkerQuestion[list[Json]]):
    """Run the preflight checks of a configuration: name, result, message, remedy, key. java: as in `Validate`."""

    name = "preflight"
    config: Config
    java: bool

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.preflight import report

        services.plugins.check_permission(self.config.get("connector.class", "").strip(), limit, java=self.java)

        def has_offsets(within: Deadline) -> bool | None:
            name = ConnectorName(self.config.get("name", ""))
            try:
                offsets = services.offsets.view(name, self.config, within)
            except FencingError:
                return None  # the finding reports it
            return any(each.offset is not None for each in offsets)

        checks = report.examine(
            self.config,
            services.config,
            services.plugins,
            limit,
            services.modes,
            has_offsets,
            _read_versions,
            services.read_state,
        )
        return [check.as_json() for check in checks]


@dataclass(frozen=True)
class Preview(WorkerQuestion[Json]):
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

    def answer(self, services: "Services", limit: Deadline) -> object:
        services.plugins.check_permission(self.config.get("connector.class", "").strip(), limit, java=self.java)
        return services.previews.preview(self.config, self.secret, self.bounds, limit, fresh=self.fresh)


@dataclass(frozen=True)
class TryTransforms(WorkerQuestion[Json]):
    """Return what transforms and converters make of a sample record, step by step (`engine.plugins.preview`).

    java: as in `Validate`.
    """

    name = "try_transforms"
    config: Config
    record: Mapping[str, object]
    secret: Sequence[str]
    java: bool

    def answer(self, services: "Services", limit: Deadline) -> object:
        services.plugins.check_permission(self.config.get("connector.class", "").strip(), limit, java=self.java)
        return services.previews.try_transforms(self.config, self.record, self.secret, limit)


@dataclass(frozen=True)
class DescribeTransactions(WorkerQuestion[list[Json]]):
    """Return what the coordinators know of the ids of tasks 0..tasks-1: id, task, state, open, producer_id, epoch,
    age_ms …

    earlier: the configurations of older generations that may be alive, possibly on other clusters.
    """

    name = "transactions"
    connector: str
    tasks: int
    config: Config
    earlier: Sequence[Config] = ()

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.queries import hanging_transactions

        configs = [self.config, *self.earlier]
        return hanging_transactions.describe(self.connector, self.tasks, configs, services.config, limit)


@dataclass(frozen=True)
class FindHanging(WorkerQuestion[list[Json]]):
    """Find open transactions on a connector's topics that no coordinator knows (KIP-664)."""

    name = "hanging"
    connector: str
    tasks: int
    configs: Sequence[Config]
    topics: Sequence[str]

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.queries import hanging_transactions

        return hanging_transactions.find(self.connector, self.tasks, self.configs, self.topics, services.config, limit)


@dataclass(frozen=True)
class ReadLastRecords(WorkerQuestion[Json]):
    """Return the last records of a topic that a connector with this configuration writes to; see
    `engine.browsing.records.last_records`."""

    name = "last_records"
    seconds = 13.0
    early = READ_EARLY
    topic: str
    config: Config
    committed_only: bool

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.browsing import records

        access = services.topics.access(self.config.get("name", ""))
        return records.last_records(
            self.topic, self.config, services.config, access, limit, committed_only=self.committed_only
        )


@dataclass(frozen=True)
class ListShareGroups(WorkerQuestion[Json]):
    """Return the cluster's share groups, and its `group.id`; see `engine.queries.share_groups`."""

    name = "share_groups"
    seconds = 13.0
    early = READ_EARLY

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.queries import share_groups

        return share_groups.list_all(services.config, limit)


@dataclass(frozen=True)
class DescribeShareGroup(WorkerQuestion[Json]):
    """Return a share group, with the state of the records in its partitions from number `skip` on; with `act`, what
    that would do. A missing group is refused with 404.
    """

    name = "share_group"
    seconds = 13.0
    early = READ_EARLY
    group: str
    act: Move | None = None
    skip: int = 0

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.queries import share_groups

        if self.act is not None:
            return share_groups.foresee(services.config, self.group, self.act, limit)
        group = share_groups.describe(services.config, self.group, limit)
        often = share_groups.delivery_limit_of({setting["name"]: setting["value"] for setting in group["settings"]})
        page = group["partitions"][self.skip : self.skip + share_groups.MOST_PARTITIONS]
        states = share_groups.find_states(services.config, self.group, page, often, limit)
        return {**group, "states": states, "skip": self.skip}


@dataclass(frozen=True)
class FindArchived(WorkerQuestion[Json]):
    """Return the records of a share group that the broker has archived; see
    `engine.queries.share_groups.find_archived`.
    """

    name = "share_archived"
    seconds = 13.0
    early = READ_EARLY
    group: str

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.queries import share_groups

        return share_groups.find_archived(services.config, self.group, limit)


@dataclass(frozen=True)
class ShareTimeline(WorkerQuestion[Json]):
    """Return the persisted steps of one share-partition; see `engine.queries.share_groups`."""

    name = "share_timeline"
    seconds = 13.0
    early = READ_EARLY
    group: str
    topic: str
    partition: int

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.queries import share_groups

        return share_groups.find_timeline(services.config, self.group, self.topic, self.partition, limit)


@dataclass(frozen=True)
class ListDeadLetters(WorkerQuestion[Json]):
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

    def answer(self, services: "Services", limit: Deadline) -> object:
        before = None if self.before is None else {edge[0]: edge[1] for edge in self.before}
        return services.dead_letters.page(
            self.config, self.stage, self.by, before, limit, committed_only=self.committed_only
        )


@dataclass(frozen=True)
class ReplayDeadLetters(WorkerQuestion[Json]):
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

    def answer(self, services: "Services", limit: Deadline) -> object:
        return services.dead_letters.replay(self.config, self.chosen, self.told, self.secret, limit)


@dataclass(frozen=True)
class StartProof(WorkerQuestion[Json]):
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

    def answer(self, services: "Services", limit: Deadline) -> object:
        return services.proofs.start(self)


@dataclass(frozen=True)
class ListConsumerGroups(WorkerQuestion[Json]):
    """List the groups whose name contains this text, with their lag in each topic; `topic`: only those that read it."""

    name = "consumer_groups"
    seconds = 13.0
    early = READ_EARLY
    search: str = ""
    topic: str = ""

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.queries import consumer_groups

        return consumer_groups.list_all(self, services.config, services.topics, limit)


@dataclass(frozen=True)
class DescribeConsumerGroup(WorkerQuestion[Json]):
    """Return its members, its offsets and the transactions that it waits for. A missing group is refused with 404."""

    name = "consumer_group"
    seconds = 13.0
    early = READ_EARLY
    group: str

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.queries import consumer_groups

        return consumer_groups.describe(self, services.config, services.topics, limit)


@dataclass(frozen=True)
class TopicQuestion(WorkerQuestion[Answer]):
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

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.browsing import records

        return records.read_records(self, services.config, services.topics, services.readers, limit)


@dataclass(frozen=True)
class FindOrigin(TopicQuestion[Json]):
    """Find where a record came from; see `engine.browsing.origins`."""

    name = "origin"
    partition: int
    offset: int

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.browsing import origins

        return origins.find_origin(self, services.config, services.topics, services.offsets, limit)


@dataclass(frozen=True)
class FindRecords(TopicQuestion[Json]):
    """Find the records of a source offset that was committed at about that time. It takes one writer."""

    name = "records_of_offset"
    partition: Mapping[str, object]
    offset: Mapping[str, object]
    time_ms: int

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.browsing import origins

        return origins.find_records_of(self, services.config, services.offsets, limit)


@dataclass(frozen=True)
class DescribeTopics(WorkerQuestion[Json]):
    """Return the names of all topics of the workers' cluster, or the details of those with these names."""

    name = "topics"
    seconds = 13.0
    early = READ_EARLY
    names: Sequence[str] | None = None

    def answer(self, services: "Services", limit: Deadline) -> object:
        from ringfence.engine.browsing import records

        return records.describe_topics(self, services.config, services.topics, limit)


def _read_versions() -> dict[str, dict[str, list[str]]] | None:
    from django.db import DatabaseError

    from ringfence import django_apps

    django_apps.load()
    from ringfence.history.plugins import versions_by_worker

    try:
        return versions_by_worker()
    except DatabaseError:
        return None  # the finding reports it


QUESTIONS: Final[tuple[type[WorkerQuestion[Any]], ...]] = (
    ListPlugins, ConfigKeys, Validate, Examine, DescribeGuarantee, ReadOffsets, Preflight, Preview, TryTransforms,
    DescribeTransactions, FindHanging, ReadLastRecords, ListShareGroups, DescribeShareGroup,
    ShareTimeline, FindArchived, ListDeadLetters, ReplayDeadLetters, StartProof, ReadRecords, FindOrigin, FindRecords,
    DescribeTopics, ListConsumerGroups, DescribeConsumerGroup,
)  # fmt: skip
