"""The internal topics as the tests read and spoil them."""

from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics import status
from ringfence.fencing.topics.status import LeaderRecord, StatusState
from ringfence.fencing.topics.topic_log import LogRecord, TopicLog
from tests.e2e.up import Up
from tests.support.waiting import eventually

CONFIGS = "connect-configs"
STATUSES = "connect-status"
_SECONDS = 30.0


def read(up: Up, topic: str) -> list[LogRecord]:
    """All committed records, in the order of each partition."""
    log = TopicLog(up.connection, topic)
    try:
        return list(log.read_to_end(Deadline.after(_SECONDS)))
    finally:
        log.close()


def config_records(up: Up, connector: str) -> list[tuple[int, bytes]]:
    """Offset and key of what the config topic says about a connector, and not about where its tasks run."""
    keys = {f"{kind}-{connector}".encode() for kind in ("connector", "target-state", "commit", "restart-connector")}
    return [(record.offset, record.key) for record in read(up, CONFIGS) if record.key in keys and record.key]


def leader(up: Up) -> LeaderRecord:
    """Who leads, as the status topic tells."""
    state = StatusState()
    for record in read(up, STATUSES):
        state = status.apply(state, status.decode(record.key, record.value))
    assert state.leader is not None
    return state.leader


def await_other_leader(up: Up, old: LeaderRecord, timeout: float = 60.0) -> None:
    """Wait until another one leads; it may have the same name, where it was started again."""
    eventually(lambda: leader(up).incarnation != old.incarnation, timeout, f"another leader than {old}", pause=0.3)


def write(up: Up, topic: str, key: bytes, value: bytes | None) -> int:
    """Write a record as a stranger does; its offset."""
    offsets: list[int] = []
    producer = Producer(up.connection.librdkafka())
    producer.produce(topic, value, key, on_delivery=lambda error, message: offsets.append(message.offset() or 0))
    producer.flush(_SECONDS)
    assert offsets, f"the record for {topic} was not written"
    return offsets[0]
