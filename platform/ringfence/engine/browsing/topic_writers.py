"""The connectors that write to a topic, as a question contains them: how to reach the topic, and their secrets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ringfence.connectors.config_providers import ConfigProviders, ResolvedConfig
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.questions import DescribeTopics, TopicPlace
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import topic_infos, topic_names
from ringfence.fencing.leader.fence_targets import list_admin_access
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

MOST_DESCRIBED: Final = 200


def describe_topics(
    request: DescribeTopics, worker: WorkerConfig, rules: TopicRules, limit: Deadline
) -> dict[str, object]:
    """Describe these topics; without `names`, return all names and which of them are internal. Raises `Refusal`."""
    connection, access = worker.connection("ringfence-topics"), rules.access("")
    try:
        if request.names is None:
            names = topic_names(connection, limit)
            return {"names": names, "internal": {name: what for name in names if (what := access.internal(name))}}
        topics = topic_infos(connection, request.names[:MOST_DESCRIBED], limit)
    except FencingError as error:
        raise Refusal(500, f"The topics of the workers' cluster cannot be listed: {error}") from error
    return {
        "topics": [
            {
                "name": each.name,
                "partitions": each.partitions,
                "replicas": each.replicas,
                "offsets": each.offsets,
                "newest_ms": each.newest_ms,
                "settings": each.settings,
                "internal": access.internal(each.name),
            }
            for each in topics
        ]
    }


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Writer:
    """A connector. secret: the names of its secret settings; topics: all that it has written to."""

    name: str
    resolution: ResolvedConfig = field(repr=False)
    secret: Sequence[str]
    topics: Sequence[str]

    @property
    def config(self) -> Mapping[str, str]:
        return self.resolution.config

    def secrets(self) -> list[str]:
        """The values that must not be shown."""
        return [
            *filter(None, (self.config.get(key, "") for key in self.secret)),
            *self.resolution.secret_values.values(),
        ]


def writers_of(place: TopicPlace, worker: WorkerConfig) -> list[Writer]:
    """Return the writers that the web process has sent."""
    providers = ConfigProviders(worker.settings)
    writers = []
    for each in place.writers:
        config, secret, topics = (each.get(key) for key in ("config", "secret", "topics"))
        if isinstance(config, Mapping) and isinstance(secret, list) and isinstance(topics, list):
            settings = {str(key): str(value) for key, value in config.items()}
            writers.append(Writer(str(each.get("name")), providers.attempt(settings)[0], secret, topics))
    return writers


def secrets_of(writers: Sequence[Writer]) -> set[str]:
    """Return the values that must not be shown of a topic with these writers."""
    return {secret for each in writers for secret in each.secrets()}


def scrubber_of(writers: Sequence[Writer]) -> Scrubber:
    return Scrubber(secrets_of(writers))


def check_topic(place: TopicPlace, worker: WorkerConfig, rules: TopicRules) -> None:
    """Raise `Refusal` for an internal topic, unless an administrator asks; for the config topic in any case."""
    what = rules.access("").internal(place.topic)
    if not what:
        return
    if place.topic == worker.config_topic:
        text = "it contains configurations with their secrets. Look at the connectors' Pipeline tabs"
        raise Refusal(403, f"{place.topic} is {what}, which is never shown: {text}")
    if not place.internal:
        raise Refusal(403, f"{place.topic} is {what}: its records are shown to administrators only")


def on_topic(
    place: TopicPlace, worker: WorkerConfig, writers: Sequence[Writer], ask: Callable[[Connection], Answer]
) -> Answer:
    """Return the answer with the first credentials that work: those of the connector in `via`, then the worker's.

    Raises `Refusal`.
    """
    base = worker.connection("ringfence-topics")
    matches = [each for each in writers if each.name == place.via]
    try:
        accesses = list_admin_access(None, matches[0].config, base, worker.settings) if matches else None
    except FencingError as error:
        hide = matches[0].resolution.hide
        raise Refusal(400, hide(f"The cluster of topic {place.topic} cannot be reached: {error}")) from error
    connections = (
        [(access.whose, access.connection) for access in accesses] if accesses else [("the worker's credentials", base)]
    )
    troubles = []
    for whose, connection in connections:
        try:
            return ask(connection)
        except Invalid as error:
            raise Refusal(400, f"{error}.") from error
        except FencingError as error:
            if error.code == "UNKNOWN_TOPIC_OR_PART":
                raise Refusal(404, f"There is no topic {place.topic}") from error
            troubles.append(f"with {whose}: {error}")
    message = f"Topic {place.topic} cannot be read {'; '.join(troubles)}"
    raise Refusal(500, matches[0].resolution.hide(message) if matches else message)
