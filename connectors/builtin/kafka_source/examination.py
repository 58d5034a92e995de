"""Tests the connection to a Kafka cluster: why a login cannot read topics there, or which ones it can."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from ringfence.connectors.api import ConfigDef, ConfigException, Examination, ParsedConfig
from ringfence.connectors.builtin.kafka_source import settings as names
from ringfence.connectors.builtin.kafka_source.cluster import Access, Cluster, source_settings
from ringfence.connectors.builtin.kafka_source.topics import Names, Renaming, choose_topics, write_partitions
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.diagnosis import Cause, describe, find_cause, summarise
from ringfence.connectors.sdk.kafka_settings.oauth_tokens import NoToken

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
