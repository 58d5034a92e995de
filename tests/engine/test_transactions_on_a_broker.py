"""What a worker tells of a connector's transactional ids, and fencing one of them: against a real broker."""

from collections.abc import Callable

import pytest

from ringfence.engine.queries.hanging_transactions import describe, fence_id
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fenced
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import ConnectorRecord
from ringfence.fencing.transactions.producer import Producer
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig
from tests.support.broker import Broker


def test_an_open_transaction_is_told_with_its_age_and_partitions_and_fencing_its_id_ends_it(
    broker: Broker, unique: Callable[[str], str]
) -> None:
    topic, group, name = unique("numbers"), unique("g"), ConnectorName(unique("c"))
    create_topics(Connection(broker.bootstrap), [TopicSpec(topic, 1, 1)], Deadline.after(30))
    worker = WorkerConfig.from_environment({"CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap, "CONNECT_GROUP_ID": group})
    held = Producer(Connection(broker.bootstrap), f"{group}-{name}-0")
    held.init(Deadline.after(30))
    held.begin()
    held.produce(topic, b"open")
    assert held.flush(20) == 0
    config = {"connector.class": "VerifiableSource", "topic": topic}
    first, second = describe(name, 2, [config], worker, Deadline.after(30))
    assert (first["state"], first["open"], first["producer_id"], first["epoch"]) == (
        "Ongoing",
        True,
        held.producer_id,
        held.epoch,
    )
    assert first["partitions"] == [{"topic": topic, "partition": 0}]
    assert isinstance(first["age_ms"], int)
    assert first["transaction_version"] == 2
    assert (second["state"], second["open"], second["age_ms"]) == ("", False, None)

    state = apply(ClusterState(), 0, ConnectorRecord(name, config))
    for stranger in (f"{group}-{name}-00", f"{group}-{name}-x", f"{group}-{name}x-0", f"{group}-{name}-"):
        with pytest.raises(Refusal) as refused:
            fence_id(state, name, stranger, worker)
        assert refused.value.status == 400
    assert describe(name, 1, [config], worker, Deadline.after(30))[0]["open"] is True
    (fenced,) = fence_id(state, name, f"{group}-{name}-0", worker)
    assert fenced["epoch"] != first["epoch"] or fenced["producer_id"] != first["producer_id"]
    with pytest.raises(Fenced):
        held.commit(Deadline.after(30))
    held.close()
    assert describe(name, 1, [config], worker, Deadline.after(30))[0]["open"] is False
