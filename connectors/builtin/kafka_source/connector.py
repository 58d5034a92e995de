"""KafkaSource: the counterpart of MirrorMaker 2's source connector."""

import json
import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    Choice,
    ConfigDef,
    ConfigException,
    ConnectorError,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    ParsedConfig,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.kafka_source import settings as names
from ringfence.connectors.builtin.kafka_source.cluster import (
    NOT_READ,
    Access,
    Cluster,
    TopicDefinition,
    source_settings,
    target_settings,
    validate,
)
from ringfence.connectors.builtin.kafka_source.settings import CONFIG_DEF
from ringfence.connectors.builtin.kafka_source.task import KafkaSourceTask, group_of
from ringfence.connectors.builtin.kafka_source.topics import (
    Names,
    Renaming,
    choose_topics,
    divide_partitions,
    write_partitions,
)
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.diagnosis import Cause, describe, find_cause, summarise
from ringfence.connectors.sdk.kafka_settings.oauth_tokens import NoToken
from ringfence.connectors.sdk.worker_limits import current

logger = logging.getLogger(__name__)

_VALIDATE_SECONDS = 5.0


class KafkaSourceConnector(SourceConnector):
    """Reads topics of a cluster into another one, or into other topics of the same cluster.

    The partitions are distributed to the tasks. New topics and partitions are detected within the refresh interval; the
    target's topics are created before a task writes to them.
    """

    version: ClassVar[str] = "1.0.0"
    reads_offsets = False
    aliases: ClassVar[tuple[str, ...]] = ("org.apache.kafka.connect.mirror.MirrorSourceConnector",)
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="Topics of a Kafka cluster",
        summary="Copies topics between clusters, or within one, with MirrorMaker's topic names.",
        category=Category.KAFKA,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=("Read access to the topics at the source cluster.",),
        sample={
            "tasks.max": "2",
            "topics": "orders",
            "source.cluster.alias": "eu",
            "source.cluster.bootstrap.servers": "kafka-eu.example.com:9092",
        },
        icon="waypoints",
        selects=(names.TOPICS,),
    )

    _watch: threading.Thread | None = None

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG_DEF

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        return KafkaSourceTask

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._settings = self.config_def().parse(config)
        self._renaming = Renaming.parse(self._settings)
        self._source = Cluster(validate(source_settings(config)))
        self._target = Cluster(validate(target_settings(config)))
        self._last_topics: dict[str, int] | None = None
        self._left_out: dict[str, str] = {}
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._watch_topics, name="topics", daemon=True)
        self._watch.start()

    def stop(self) -> None:
        if self._watch is not None:
            self._stopping.set()
            self._watch.join(30)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        try:
            topics = self._choose_topics()
            if not self.context.trial:
                self._prepare_target(topics)
        except KafkaException as error:
            raise ConnectorError(f"The topics cannot be prepared: {_words(error)}") from error
        self._last_topics = topics
        return self.divide(topics, max_tasks)

    def divide(self, topics: Mapping[str, int], max_tasks: int) -> list[dict[str, str]]:
        """Return the configurations of the tasks for these topics, given with the number of their partitions."""
        if self._settings.string(names.ASSIGNMENT) == names.GROUP:
            if not topics:
                return []
            tasks = min(max_tasks, sum(topics.values()))
            return [{**self._config, names.TASK_TOPICS: json.dumps(topics, separators=(",", ":"))}] * tasks
        return [
            {**self._config, names.TASK_PARTITIONS: json.dumps(share, separators=(",", ":"))}
            for share in divide_partitions(topics, max_tasks)
        ]

    def _choose_topics(self) -> dict[str, int]:
        """Return the topics to read, with the number of their partitions. Raises `ConnectorError` if a closed topic is
        named. Closed topics that only match a pattern are skipped: otherwise anybody who may create a topic could stop
        all connectors with patterns.
        """
        included, excluded = (Names(_list(self._settings, key)) for key in (names.TOPICS, names.TOPICS_EXCLUDE))
        topics = choose_topics(self._source.topics(), included, excluded, self._renaming)
        closed = self._closed_topics(topics)
        for topic in _list(self._settings, names.TOPICS):
            if topic in closed:
                raise ConnectorError(f"{names.TOPICS}: {closed[topic]}. Remove {topic} from the setting")
        if closed != self._left_out:
            self._left_out = closed
            if closed:
                self.context.warn(f"Matching topics are skipped: {'; '.join(closed[each] for each in sorted(closed))}")
        return {topic: count for topic, count in topics.items() if topic not in closed}

    def _closed_topics(self, topics: Mapping[str, int]) -> dict[str, str]:
        """Return why some of the topics are neither read nor created at the target."""
        limits = current()
        closed = {
            topic: reason for topic in topics if (reason := self.context.why_closed(self._renaming.target(topic)))
        }
        suspects = {topic for topic in topics if limits.internal(topic)}
        if suspects and self._source.cluster_id() == limits.cluster_id:
            closed |= {topic: NOT_READ.format(topic) for topic in suspects}
        return closed

    def _prepare_target(self, topics: Mapping[str, int]) -> None:
        """Create missing topics with the source's partitions and settings; add partitions to topics with fewer."""
        there = self._target.topics()
        missing = [topic for topic in topics if self._renaming.target(topic) not in there]
        configs = self._source.configs(missing)
        left_out = Names(_list(self._settings, names.CONFIGS_EXCLUDE))
        new_topics = {
            self._renaming.target(topic): TopicDefinition(
                topics[topic], {name: value for name, value in configs[topic].items() if name not in left_out}
            )
            for topic in missing
        }
        self._target.create(new_topics, self._settings.integer(names.REPLICATION_FACTOR))
        small = {
            self._renaming.target(topic): count
            for topic, count in topics.items()
            if count > there.get(self._renaming.target(topic), count)
        }
        self._target.grow(small)
        if new_topics or small:
            logger.info("At the target: created %s, with more partitions %s", sorted(new_topics), sorted(small))

    def _watch_topics(self) -> None:
        while not self._stopping.wait(self._settings.integer(names.REFRESH_SECONDS)):
            try:
                topics = self._choose_topics()
            except KafkaException as error:
                logger.warning("The source's topics cannot be listed; the next refresh tries again: %s", _words(error))
                continue
            except ConnectorError as error:  # the task that reads it reports this, too, and fails
                logger.warning("%s", error)
                continue
            if self._last_topics is not None and topics != self._last_topics:
                logger.info("The topics to read have changed: %s", sorted(topics))
                self.context.request_task_reconfiguration()

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        errors: dict[str, list[str]] = {}
        for key in (names.TOPICS, names.TOPICS_EXCLUDE, names.CONFIGS_EXCLUDE):
            try:
                Names(part.strip() for part in config.get(key, "").split(","))
            except ValueError as error:
                errors[key] = [f"Invalid value for configuration {key}: {error}."]
        clusters: dict[str, Cluster] = {}
        for key, settings in (
            (names.SOURCE_SERVERS, source_settings(config)),
            (names.TARGET_SERVERS, target_settings(config)),
        ):
            errors.update({name: [text] for name, text in settings.errors.items()})
            if not settings.errors and settings.settings.get("bootstrap.servers"):
                try:
                    clusters[key] = Cluster(settings.settings, _VALIDATE_SECONDS, explains=True)
                except NoToken as error:
                    errors[key] = [f"{error}."]
        ids: dict[str, str] = {}
        for key, cluster in clusters.items():
            try:
                cluster.await_topics()
                ids[key] = cluster.cluster_id()
            except KafkaException:
                where = config.get(key, "").strip() or "the worker's address"
                explanation = explain(cluster.errors, where)
                setting = explanation.setting if key == names.SOURCE_SERVERS else key
                errors[setting] = [explanation.text]
        if ids.get(names.SOURCE_SERVERS) == current().cluster_id and names.TOPICS not in errors:
            topics = (part.strip() for part in config.get(names.TOPICS, "").split(","))
            if closed := [topic for topic in topics if current().internal(topic)]:
                errors[names.TOPICS] = [
                    f"{names.TOPICS}: {NOT_READ.format(closed[0])}, which connectors do not read. Remove it."
                ]
        one = len(ids) == 2 and len(set(ids.values())) == 1
        if config.get(names.ASSIGNMENT) == names.GROUP:
            if len(ids) == 2 and not one:
                errors[names.ASSIGNMENT] = [
                    "Source and target are different clusters: offsets of a consumer group can be committed only in "
                    "a transaction of its own cluster. Use the assignment static."
                ]
            if config.get(names.ISOLATION, names.READ_COMMITTED) != names.READ_COMMITTED:
                errors[names.ISOLATION] = [
                    "With the assignment group, only read_committed waits for offsets of open transactions. Remove "
                    "this setting, or use the assignment static."
                ]
        identity = names.POLICIES.get(config.get(names.POLICY, names.PREFIX)) == names.IDENTITY
        if identity and one:
            errors[names.POLICY] = [
                "Source and target are the same cluster: with the policy identity the connector would read its own "
                "records forever. Use the policy prefix, or another target."
            ]
        return errors

    def examine(self, config: Mapping[str, str]) -> Examination:
        """Reach the source cluster, and check that its topics exist and may be read."""
        return examine(config, self.config_def())

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        """Return the topics of the source cluster, with their partitions."""
        topics = list_topics(config, self.config_def())
        return {names.TOPICS: [Choice(topic, write_partitions(count)) for topic, count in topics.items()]}

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported with read_committed only: otherwise, aborted records would be delivered."""
        committed = config.get(names.ISOLATION, names.READ_COMMITTED) == names.READ_COMMITTED
        return ExactlyOnceSupport.SUPPORTED if committed else ExactlyOnceSupport.UNSUPPORTED

    def explain_guarantee(self, config: Mapping[str, str]) -> str:
        if config.get(names.ISOLATION, names.READ_COMMITTED) == names.READ_COMMITTED:
            return ""
        return f"Records of aborted transactions are copied. Set {names.ISOLATION}={names.READ_COMMITTED}."

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one needs cluster, topic and partition, and the last offset
        delivered.

        With the assignment group, the group stores the offsets; source offsets are left from another assignment.
        """
        if config.get(names.ASSIGNMENT) == names.GROUP and any(offset is not None for _, offset in offsets):
            raise ConnectorError(
                f"The consumer group {group_of(config)} stores the offsets: move them with kafka-consumer-groups "
                "while the connector is stopped."
            )
        for partition, offset in offsets:
            if offset is None:
                continue
            for key in (names.CLUSTER, names.TOPIC):
                if not isinstance(partition.get(key), str) or not partition[key]:
                    raise ConnectorError(f"The partition {dict(partition)} must have a name under {key!r}.")
            for what, holder, key in (("partition", partition, names.PARTITION), ("offset", offset, names.OFFSET)):
                number = holder.get(key)
                if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                    raise ConnectorError(f"The {what} {dict(holder)} must have a non-negative integer under {key!r}.")
        return True


def _list(config: ParsedConfig, key: str) -> list[str]:
    value = config[key]
    assert isinstance(value, list)
    return [str(one) for one in value]


def _words(error: KafkaException) -> str:
    return str(error.args[0].str())


_SECONDS: Final = 8.0
_LOOKED_AT: Final = 100
"""The maximum number of topics whose permissions are read."""
_CHOOSES: Final = (names.TOPICS, names.TOPICS_EXCLUDE, names.POLICY, names.SOURCE_ALIAS, names.SEPARATOR)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_PREFIX: Final = re.compile(r"^(FAIL \[\S*\] \[thrd:\S*\]: )?\S+/(bootstrap|\d+): ")
"""Which of the client's connections a message is about."""
_TIMING: Final = re.compile(r" \(after \d+ms in state .*\)$")
_CAUSES: Final = {KafkaError._AUTHENTICATION: Cause.LOGIN, KafkaError._RESOLVE: Cause.NAME}
_MEANINGLESS: Final = frozenset({KafkaError._ALL_BROKERS_DOWN})
_SECURITY: Final = (
    "The broker at {} closes the connection: it expects encryption or a login, or has none where one is set. Check the "
    "security protocol and the port."
)
_SETTINGS: Final = {Cause.LOGIN: names.USER, Cause.CERTIFICATE: names.SECURITY, None: names.SECURITY}
"""The settings to correct; the addresses for other causes."""


def examine(config: Mapping[str, str], definition: ConfigDef) -> Examination:
    """Return the topics that the connector would read, or why it cannot read them. definition: its settings."""
    where = config.get(names.SOURCE_SERVERS, "").strip()
    if not where:
        return Examination({names.SOURCE_SERVERS: ["Say where the cluster is, as in kafka.example.com:9092."]})
    translation = source_settings(config)
    if translation.errors:
        return Examination({name: [text] for name, text in translation.errors.items()})
    own = {name: config[name] for name in _CHOOSES if config.get(name, "").strip()}
    try:
        settings = definition.parse({names.TOPICS: ".*", names.SOURCE_SERVERS: where, **own})
        chooser = _Chooser(settings)
    except (ConfigException, ValueError) as error:
        return Examination({names.TOPICS: [str(error)]})
    try:
        cluster = Cluster(translation.settings, _SECONDS, explains=True)
    except NoToken as error:
        return Examination({names.SOURCE_SERVERS: [f"{error}."]})
    try:
        topics = cluster.await_topics()
    except KafkaException:
        explanation = explain(cluster.errors, where)
        return Examination({explanation.setting: [explanation.text]})
    try:
        return _look(cluster, topics, chooser, _entries(settings, names.TOPICS) if names.TOPICS in own else [])
    except KafkaException as error:
        words = error.args[0].str()
        return Examination({names.SOURCE_SERVERS: [f"The cluster answers, but not about its topics: {words}."]})


def list_topics(config: Mapping[str, str], definition: ConfigDef) -> dict[str, int]:
    """Return the topics to choose from, with the number of their partitions; none if the settings have errors.
    Raises `KafkaException`.
    """
    translation = source_settings(config)
    if translation.errors or not config.get(names.SOURCE_SERVERS, "").strip():
        return {}
    own = {name: config[name] for name in _CHOOSES if name != names.TOPICS and config.get(name, "").strip()}
    settings = definition.parse({names.TOPICS: ".*", names.SOURCE_SERVERS: config[names.SOURCE_SERVERS], **own})
    cluster = Cluster(translation.settings, _SECONDS)
    return _Chooser(settings).choose(cluster, cluster.await_topics())


class Explanation(NamedTuple):
    """cause: None if the connection is closed for another one, such as a login that is missing."""

    cause: Cause | None
    text: str

    @property
    def setting(self) -> str:
        """The source's setting to correct."""
        return _SETTINGS.get(self.cause, names.SOURCE_SERVERS)


def explain(reports: Iterable[KafkaError], where: str) -> Explanation:
    """Return why no broker of a cluster answers, with what helps. reports: of its client."""
    telling = [each for each in reports if each.code() not in _MEANINGLESS]
    if not telling:
        return Explanation(None, _SECURITY.format(where))  # a broker that is silent is reported
    cause, words = min(map(_diagnose, telling), key=lambda each: _ORDER.index(each.cause))
    advice = _SECURITY.format(where) if cause is None else describe(cause, where)
    return Explanation(cause, f"{advice} The client says: {words}.")


_ORDER: Final = (Cause.LOGIN, Cause.PERMISSION, Cause.CERTIFICATE, Cause.NAME, None, Cause.REFUSED, Cause.SILENT)
"""The most telling first: other brokers of the cluster may be down for other reasons."""


def _diagnose(report: KafkaError) -> Explanation:
    words = _TIMING.sub("", _PREFIX.sub("", " ".join(str(report.str()).split())))
    cause = _CAUSES.get(report.code()) or find_cause(words)
    return Explanation(cause if cause in _ORDER else None, words)


class _Chooser:
    """Which topics of a cluster a configuration names. Raises `ValueError` for an invalid pattern."""

    def __init__(self, settings: ParsedConfig) -> None:
        self._included = Names(_entries(settings, names.TOPICS))
        self._excluded = Names(_entries(settings, names.TOPICS_EXCLUDE))
        self._renaming = Renaming.parse(settings)

    def choose(self, cluster: Cluster, topics: Mapping[str, int]) -> dict[str, int]:
        limits = worker_limits.current()
        matches = choose_topics(topics, self._included, self._excluded, self._renaming)
        internal = {topic for topic in matches if limits.internal(topic)}
        if not internal or cluster.cluster_id() != limits.cluster_id:
            return matches
        return {topic: count for topic, count in matches.items() if topic not in internal}


def _entries(settings: ParsedConfig, key: str) -> list[str]:
    value = settings[key]
    return [str(each) for each in value] if isinstance(value, list) else []


def _look(cluster: Cluster, topics: Mapping[str, int], chooser: _Chooser, entries: Sequence[str]) -> Examination:
    """topics: all that the login sees. entries: the names and patterns that are set. Raises `KafkaException`."""
    matches = chooser.choose(cluster, topics)
    absent = [entry for entry in entries if not any(topic in Names([entry]) for topic in matches)]
    if absent:
        return Examination({names.TOPICS: [_explain_absence(cluster, topics, entry) for entry in absent]})
    if not matches:
        return Examination(
            {names.TOPICS: ["The cluster answers, but has no topic that this login sees. Create one, or grant READ."]}
        )
    access = cluster.access([*matches][:_LOOKED_AT])
    denied = [topic for topic, each in access.items() if each is Access.DENIED]
    readable = {topic: count for topic, count in matches.items() if topic not in denied}
    if denied and (entries or not readable):
        return Examination({names.TOPICS: [f"{_name_some(denied)}: the login sees, but may not read. {_GRANT}"]})
    listing = summarise("topic", [f"{topic} ({write_partitions(count)})" for topic, count in readable.items()])
    only = next(iter(readable)) if len(readable) == 1 else ""
    return Examination(summary=f"{listing[:1].upper()}{listing[1:]}.", proposals={names.TOPICS: only} if only else {})


_GRANT: Final = "Grant READ on the topic to the login: kafka-acls --add --allow-principal … --operation Read --topic …"


def _name_some(topics: Sequence[str]) -> str:
    return summarise("topic", topics)


def _explain_absence(cluster: Cluster, topics: Mapping[str, int], entry: str) -> str:
    """Return why no topic is read for a name or a pattern that is set."""
    others = [topic for topic in topics if topic in Names([entry])]
    if others:
        return (
            f"{others[0]} is not read: it is internal, the connector writes it, or {names.TOPICS_EXCLUDE} excludes it."
        )
    if not _NAME.fullmatch(entry):
        return f"No topic that this login sees matches {entry}. Check the pattern; it must match whole names."
    if cluster.access([entry])[entry] is Access.DENIED:
        return f"The login may not see topic {entry}. {_GRANT}"
    return f"The cluster has no topic {entry}. Check its spelling, or create it."
