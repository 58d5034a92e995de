"""Creates topics before the first record goes there, by the connector's rules (KIP-158, `topic.creation.*`)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ringfence.connectors.common_settings import DEFAULT, ENABLE, PREFIX, REPLICATION_FACTOR, group_names
from ringfence.connectors.sdk.linear_patterns import LinearPattern
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_exists

log = logging.getLogger(__name__)

_NOT_TOPICS: Final = frozenset({"include", "exclude", "partitions", REPLICATION_FACTOR})
_REFUSED: Final = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "POLICY_VIOLATION"})
_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Group:
    """Topics that are created with the same settings."""

    include: Sequence[LinearPattern]
    exclude: Sequence[LinearPattern]
    partitions: int
    replication: int
    config: Mapping[str, str]

    def spec(self, topic: str) -> TopicSpec:
        return TopicSpec(topic, self.partitions, self.replication, config=self.config)

    def holds(self, topic: str) -> bool:
        return any(one.fullmatch(topic) for one in self.include) and not any(
            one.fullmatch(topic) for one in self.exclude
        )


class TopicCreationGroups:
    """A connector's groups in order, with the default one last."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = groups

    @classmethod
    def of(cls, config: Mapping[str, str], worker: Mapping[str, str]) -> "TopicCreationGroups | None":
        """Return the rules; None if the connector has none or the worker disables them. Then the broker may create
        topics.

        Raises `ValueError` for settings that validation refuses.
        """
        enabled = worker.get(ENABLE, "true").strip().lower() == "true"
        if not enabled or not any(name.startswith(PREFIX) for name in config):
            return None
        fallback = _below(config, DEFAULT)
        names = [name for name in group_names(config) if name != DEFAULT]
        groups = [_group({**_sizes(fallback), **_below(config, name)}) for name in names]
        everything = {**fallback, "include": ".*", "exclude": ""}
        return cls([*groups, _group(everything)])

    def spec(self, topic: str) -> TopicSpec:
        """Return how to create the topic: by the first group that includes it."""
        return next(group.spec(topic) for group in self._groups if group.holds(topic))


def _below(config: Mapping[str, str], group: str) -> dict[str, str]:
    prefix = f"{PREFIX}{group}."
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


def _sizes(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: settings[name] for name in ("partitions", REPLICATION_FACTOR) if name in settings}


def _group(settings: Mapping[str, str]) -> Group:
    include, exclude = (
        [LinearPattern(part.strip()) for part in settings.get(key, "").split(",") if part.strip()]
        for key in ("include", "exclude")
    )
    others = {name: value for name, value in settings.items() if name not in _NOT_TOPICS}
    return Group(include, exclude, int(settings["partitions"]), int(settings[REPLICATION_FACTOR]), others)


class TopicSpecs(Protocol):
    """Knows how to create a topic."""

    def spec(self, topic: str) -> TopicSpec: ...


class TopicMaker:
    """Creates each missing topic once. Called on the task's thread."""

    def __init__(self, connection: Connection, rules: TopicSpecs, clock: Clock, report: Callable[[str], None]) -> None:
        """report: called with a message about what was created, or why not."""
        self._connection = connection
        self._rules = rules
        self._clock = clock
        self._report = report
        self._there: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Return once the topic exists or the broker may create it. Raises `FencingError` for any other failure."""
        if topic in self._there:
            return
        deadline = Deadline.after(_SECONDS, self._clock)
        if not topic_exists(self._connection, topic, deadline):
            make(self._connection, self._rules.spec(topic), deadline, self._report)
        self._there.add(topic)


def make(connection: Connection, spec: TopicSpec, deadline: Deadline, report: Callable[[str], None]) -> None:
    """Create a missing topic. If that is not permitted, the broker may do it, as in Kafka Connect."""
    try:
        if create_topics(connection, [spec], deadline):
            report(f"created topic {spec.name} with {spec.partitions} partitions")
    except FencingError as error:
        if error.code not in _REFUSED:
            raise
        log.warning(
            "Topic %s cannot be created (%s): the broker may do it, where auto.create.topics.enable is on. Grant the "
            "connector's principal CREATE on it, or create it by hand",
            spec.name,
            error,
        )
        report(f"topic {spec.name} may not be created: {error}")
