"""The coordinator of a group moves to another broker: a kept client must not ask the old one forever."""

from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.client_pool import close_idle_clients
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import consumer_group_admin, group_members
from tests.support.cluster import running, three_brokers
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
GROUP = "moved"
COORDINATION = TopicPartition("__consumer_offsets", 0)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    properties = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "1"}
    with running(three_brokers(tmp_path_factory.mktemp("three"), 3, **properties)) as brokers:
        yield [each.bootstrap for each in brokers]
    close_idle_clients()


@pytest.mark.parametrize("ask", ["members", "offsets"])
def test_a_group_is_found_at_its_new_coordinator(bootstrap: list[str], ask: str) -> None:
    connection = Connection(",".join(bootstrap))
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=GROUP)
    consumer.subscribe(["unused"])

    def members() -> bool:
        try:
            return len(group_members(connection, GROUP, Deadline.after(10))) == 1
        except Retriable:
            return False

    def offsets() -> bool:
        try:
            with consumer_group_admin(connection) as client:
                return client.committed_offsets([GROUP]) == {GROUP: {}}
        except Retriable:
            return False

    answered: Callable[[], bool] = {"members": members, "offsets": offsets}[ask]

    def settled() -> bool:
        consumer.poll(100)
        return answered()

    try:
        eventually(settled, 60, "the group is there")
        for node in (1, 2, 3):
            admin.alter_partition_reassignments({COORDINATION: [node]})
            eventually(lambda: not admin.list_partition_reassignments(), 60, "the coordinator has moved")
            eventually(settled, 20, f"an answer from the coordinator on broker {node}")
    finally:
        consumer.close(autocommit=False)
        admin.close()
