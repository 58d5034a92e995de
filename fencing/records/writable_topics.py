"""Which topics a connector may write to: never internal ones, and only those granted to its editor. Pure.

Internal topics are the workers' four topics, Kafka's own (`__*`), and the offsets topic of every connector. A worker's
login can write them all, so a record there could forge a configuration, a placement or another connector's source
offsets. They are recognised by name on any cluster, because an address can have aliases. Validation refuses a topic
that a configuration names; the task refuses, after transforms, a topic that only the records name.

The grant of a connector is in the config topic, written in the transaction of its configuration: `topic-grant-<c>`
`{"patterns": [["team-a.*"]], "user": "alice"}`. Kafka Connect logs a warning about the key and continues. Only the
leader can write that topic, so no connector can extend its own grant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ringfence.connectors.api.errors import ConnectorError
from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.fencing.errors import Unreadable
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.config_records import ConnectorRecord, TaskCountRecord, decode
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.tally import Tally
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.fencing.topics.topic_ids import Topics

_KAFKAS: Final = "__"
_HOLDERS: Final = (b"connector-", b"tasks-count-")
_SETTING: Final = OFFSETS_STORAGE_TOPIC.encode()


@dataclass(frozen=True, slots=True)
class TopicAccess:
    """workers: the workers' topics, None if there are none to protect (tests). offsets: the connectors'
    offsets topics.
    """

    workers: Topics | None = None
    offsets: frozenset[str] = field(default_factory=frozenset)
    grant: TopicGrantRecord | None = None

    def internal(self, topic: str) -> str:
        """Return what an internal topic holds, "" for any other topic."""
        workers = self.workers
        if workers is not None:
            for name, what in (
                (workers.config, "the workers' config topic"),
                (workers.offsets, "the workers' offsets topic"),
                (workers.status, "the workers' status topic"),
                (workers.events, "the workers' events topic"),
            ):
                if topic == name:
                    return what
        if topic.startswith(_KAFKAS):
            return "a topic of Kafka's own"
        return "the offsets topic of a connector" if topic in self.offsets else ""

    def refusal(self, topic: str) -> str:
        """Return why no record may go to the topic, as a message; "" if it may."""
        if what := self.internal(topic):
            return f"{topic} is {what}, to which connectors must not write. Name another topic"
        return "" if self.grant is None else self.grant.refusal(topic)

    def check(self, topic: str) -> None:
        """Raise `ConnectorError` if no record may go to the topic."""
        if reason := self.refusal(topic):
            raise ConnectorError(f"The task produced a record to a topic that it must not write to: {reason}")


class OffsetsTopics:
    """The offsets topics of all connectors, followed in the config topic. Records that name none are not parsed.

    They are those of the newest configuration and of the newest task count record: old tasks may still write there,
    and a deleted connector that is created again continues from there.
    """

    def __init__(self) -> None:
        self._by_key: dict[bytes, str] = {}
        self.names: frozenset[str] = frozenset()

    def apply(self, record: LogRecord) -> bool:
        """Apply one record. Returns whether that changed `names`."""
        if record.key is None or not record.key.startswith(_HOLDERS):
            return False
        name = _explain_name(record) if record.value is not None and _SETTING in record.value else ""
        if self._by_key.get(record.key, "") == name:
            return False
        if name:
            self._by_key[record.key] = name
        else:
            self._by_key.pop(record.key, None)
        names = frozenset(self._by_key.values())
        changed, self.names = names != self.names, names
        return changed


def _explain_name(record: LogRecord) -> str:
    try:
        config_record = decode(record.key, record.value)
    except Unreadable:
        return ""  # the leader stops that connector
    settings: Mapping[str, str] = {}
    if isinstance(config_record, ConnectorRecord):
        settings = config_record.config or {}
    elif isinstance(config_record, TaskCountRecord):
        settings = config_record.target
    return settings.get(OFFSETS_STORAGE_TOPIC, "").strip()


def tally_offsets_topics() -> Tally:
    """Return a tally whose keys are the offsets topics of all connectors."""
    return Tally(lambda connector: dict.fromkeys(_offsets_topics_of(connector), ()))


def _offsets_topics_of(connector: ConnectorState) -> frozenset[str]:
    settings = (connector.config or {}, connector.count.target if connector.count else {})
    return frozenset(each.get(OFFSETS_STORAGE_TOPIC, "").strip() for each in settings) - {""}
