"""Validates the topics that a configuration names: no connector may write to an internal topic.

Here, only the names in the configuration are known. Transforms and plugins generate others, so the task checks each
topic that a record goes to (`fencing.records.writable_topics`).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.connectors.sdk.delivery import DEAD_LETTERS
from ringfence.engine.platform_topics import topics_of
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.records.writable_topics import TopicAccess, tally_offsets_topics
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.worker_config import WorkerConfig

Config = Mapping[str, str]
State = Callable[[], ClusterState | None]
"""Returns the state of the config topic that the worker has read; None before its first read."""
Active = Callable[[], Mapping[ConnectorName, Collection[str]]]
"""Returns the topics that connectors have written to since their last reset (KIP-558)."""

TARGETS = ("topic", DEAD_LETTERS)
_SOURCES = "topics"


class TopicRules:
    """One object per worker, thread-safe."""

    def __init__(self, worker: WorkerConfig, state: State = lambda: None, active: Active = dict) -> None:
        self._topics = topics_of(worker)
        self._state = state
        self._active = active
        self._tally = tally_offsets_topics()
        self._cache: tuple[ClusterState | None, frozenset[str]] = (None, frozenset())

    def access(self, connector: str) -> TopicAccess:
        """Return the topics that the connector may write to now."""
        state = self._state()
        if state is None:
            return TopicAccess(self._topics)
        grant = state.connector(ConnectorName(connector)).topic_grant
        return TopicAccess(self._topics, self.offsets_topics(), grant)

    def offsets_topics(self) -> frozenset[str]:
        """Return the offsets topics of all connectors that this worker knows."""
        state = self._state()
        if state is not None and state is not self._cache[0]:
            self._cache = state, frozenset(self._tally.sums(state))
        return self._cache[1]

    def errors_of(self, config: Config) -> dict[str, list[str]]:
        """Return the errors by setting: topics that take no records, and topics that cannot keep offsets."""
        internal = self.access("").internal
        errors: dict[str, list[str]] = {}
        for key in TARGETS:
            for topic in targets(config, key):
                if what := internal(topic):
                    errors.setdefault(key, []).append(
                        f"{key}: {topic} is {what}, to which connectors must not write. Name another topic."
                    )
        own = config.get(OFFSETS_STORAGE_TOPIC, "").strip()
        if own and (reason := self._no_place_for_offsets(own, config)):
            errors[OFFSETS_STORAGE_TOPIC] = [f"{OFFSETS_STORAGE_TOPIC}: {reason}"]
        return errors

    def _no_place_for_offsets(self, own: str, config: Config) -> str:
        """Return why the topic cannot store offsets. Several connectors may share an offsets topic (KIP-618), but it
        must not contain other records.
        """
        if own.startswith("__"):
            return f"{own} is one of Kafka's own topics. Name another one."
        if own in targets(config, DEAD_LETTERS):
            return f"The connector's dead letters go to {own}: offsets need a separate topic."
        state = self._state()
        for other in state.existing() if state is not None else ():
            foreign = other.name != config.get("name") and other.config is not None
            if foreign and any(own in targets(other.config or {}, key) for key in TARGETS):
                return f"Another connector's records go to {own}: offsets need a separate topic."
            # Moreover, that connector could no longer read it.
            if foreign and own in targets(other.config or {}, _SOURCES):
                return f"Another connector reads {own}: offsets need a separate topic."
        # Otherwise anybody could block a topic for connectors that write there by a transform, by naming it here.
        if any(own in topics for topics in self._active().values()):
            return (
                f"{own} contains a connector's records: offsets need a separate topic. Name another one, or reset "
                "that connector's active topics if it no longer writes there."
            )
        return ""


def targets(config: Config, key: str) -> list[str]:
    """Return the topics that the setting names. Only the task resolves placeholders, and checks the topics again."""
    return [topic for each in config.get(key, "").split(",") if (topic := each.strip())]


def add_to(validation: dict[str, Any], errors: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return Kafka Connect's validation object with these errors."""
    entries: dict[str, dict[str, Any]] = {str(entry["value"]["name"]): entry for entry in validation["configs"]}
    for key, texts in errors.items():
        entry = entries.get(key) or entries["name"]
        entry["value"]["errors"].extend(texts)
        validation["error_count"] += len(texts)
    return validation
