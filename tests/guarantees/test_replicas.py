"""The reader of record batches beside other replicas than leaders: read from, lost, elected without its records."""

import signal
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ringfence.connectors.api import ConnectorError
from ringfence.fencing.fetching.partition_reader import PartitionReader
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.batch_copies import reader_of, send
from tests.support.cluster import running, three_brokers
from tests.support.fetched import run_of
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EmbeddedKafka]]:
    """Three brokers in a rack each, the first of them the controller. Readers are sent to the replica in their rack."""
    made = three_brokers(
        tmp_path_factory.mktemp("replicas"),
        offsets_topic_replication_factor="1",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        min_insync_replicas="1",
        replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
        replica_lag_time_max_ms="2000",
    )
    for number, each in enumerate(made, 1):
        each.properties["broker.rack"] = f"rack-{number}"
    with running(made):
        yield made


def create(bootstrap: str, name: str, replicas: list[int], **config: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    (created,) = admin.create_topics([NewTopic(name, 1, replica_assignment=[replicas], config=settings)]).values()
    created.result(60)
    eventually(lambda: leader_of(admin, name) == replicas[0], 60, f"{name} has its leader")
    return admin


def leader_of(admin: AdminClient, topic: str) -> int:
    return int(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)


def read(reader: PartitionReader, until: int) -> list[bytes | None]:
    """The values of the next records, up to the offset `until`."""
    values: list[bytes | None] = []

    def more() -> bool:
        for batch in reader.poll(1.0):
            run = run_of(batch)
            values.extend(run.values)
        return (max(reader.positions.values())) >= until

    eventually(more, 120, lambda: f"offset {until}: {reader.positions}", pause=0)
    return values


def test_a_reader_reads_from_the_replica_in_its_rack_and_without_it_from_the_leader(
    brokers: list[EmbeddedKafka], unique: Callable[[str], str]
) -> None:
    topic, bootstrap = unique("near"), brokers[0].bootstrap
    create(bootstrap, topic, [1, 2, 3])
    reader, far = (reader_of(bootstrap, client_rack=rack) for rack in ("rack-3", "no-rack-of-theirs"))
    for each in (reader, far):
        each.add({(topic, 0): 0})

    near: list[bytes | None] = []
    for number in range(20):
        send(bootstrap, topic, range(number * 100 + 1, number * 100 + 101))
        near += read(reader, (number + 1) * 100)
    assert near == read(far, 2000)
    assert len(near) == 2000
    assert list(reader._state.by_node(0.0)) == [3], "it is sent there by the leader"
    assert list(far._state.by_node(0.0)) == [1]
    brokers[2].process.signal(signal.SIGSTOP)  # it answers nothing, and no connection breaks
    try:
        send(bootstrap, topic, range(2001, 2101))
    finally:
        brokers[2].kill()
    assert len(read(reader, 2100)) == 100
    assert list(reader._state.by_node(0.0)) == [1]
    brokers[2].start()
    for each in (reader, far):
        each.close()


def test_a_leader_without_the_newest_records_ends_the_reading(
    brokers: list[EmbeddedKafka], unique: Callable[[str], str]
) -> None:
    """Its new records have offsets that were read already. To go on behind them would lose records without a word."""
    topic, bootstrap = unique("unclean"), brokers[0].bootstrap
    admin = create(bootstrap, topic, [2, 3], unclean_leader_election_enable="true")
    reader = reader_of(bootstrap)
    reader.add({(topic, 0): 0})
    send(bootstrap, topic, range(1, 101))
    assert len(read(reader, 100)) == 100
    brokers[2].kill()
    send(bootstrap, topic, range(101, 201))  # broker 2 alone has them
    assert len(read(reader, 200)) == 100
    brokers[1].kill()
    brokers[2].start()
    eventually(lambda: leader_of(admin, topic) == 3, 120, "the other one leads")
    send(bootstrap, topic, range(1001, 1301))
    with pytest.raises(ConnectorError, match="truncated before offset 200"):
        read(reader, 400)
    reader.close()
    brokers[1].start()
