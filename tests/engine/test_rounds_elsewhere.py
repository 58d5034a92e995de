"""Fencing rounds on another cluster that asks for a login: where the old tasks wrote, as who they were."""

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.engine.spark.task_process import run_spec
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fenced, FencingError
from ringfence.fencing.ids import TaskId, task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.leader.fence_generation import fence
from ringfence.fencing.leader.fence_targets import AdminAccess, list_admin_access
from ringfence.fencing.offsets.source_offsets import read_offsets
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from tests.support.broker import login
from tests.support.engine_cluster import C, Cluster
from tests.support.guarded_broker import ALLOW, IDS, WRITE, grant
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("quick_restarts")


def overrides(bootstrap: str, user: str, password: str = "") -> dict[str, str]:
    return {
        "producer.override.bootstrap.servers": bootstrap,
        **{f"{role}.override.security.protocol": "SASL_PLAINTEXT" for role in Role},
        **{f"{role}.override.sasl.mechanism": "PLAIN" for role in Role},
        **{f"{role}.override.sasl.jaas.config": login(user, password) for role in Role},
    }


@pytest.fixture
def away(worker: object) -> Connection:
    return worker.connection()  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def holder(away: Connection, unique: Callable[[str], str]) -> Iterator[Producer]:
    """An old task that has a transaction open."""
    held = Producer(away, unique("g-c") + "-0")
    held.init(Deadline.after(30))
    held.begin()
    held.produce("data", b"too late")
    assert held.flush(20) == 0
    yield held
    held.close()


@pytest.mark.thorough
def test_a_round_fences_on_the_old_generations_cluster_though_the_newest_configuration_has_left_it(
    cluster: Cluster,
    away: Connection,
    unique: Callable[[str], str],
) -> None:
    plain = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers")}
    created = cluster.command("create", {"config": {**plain, **overrides(away.bootstrap, "root")}})
    assert created["ok"] is True
    eventually(lambda: cluster.leader.state().connector(C).runnable, 30, "the first round is over")
    held = Producer(away, task_transactional_id(cluster.config.group_id, TaskId(C, 0)))
    held.init(Deadline.after(30))
    held.begin()
    cluster.command("configure", {"config": plain})
    eventually(lambda: cluster.leader.state().connector(C).runnable, 60, "the round is over")
    held.produce("data", b"too late")
    with pytest.raises(Fenced):
        held.commit(Deadline.after(20))
    held.close()


@pytest.mark.slow
def test_the_first_credentials_that_work_fence_and_it_is_said_whose_they_were(
    away: Connection, holder: Producer
) -> None:
    old, new = overrides(away.bootstrap, "root", "no-more"), overrides(away.bootstrap, "root")
    home = Connection("127.0.0.1:1")
    done = fence([holder.transactional_id], list_admin_access(old, new, home, {}))
    assert done.whose == "the newest configuration's credentials"
    assert "the old generation's credentials did not do" in done.message
    assert "no-more" not in done.message
    with pytest.raises(Fenced):
        holder.commit(Deadline.after(20))


def test_a_principal_that_may_not_fence_is_named_with_the_remedy_until_it_is_granted(
    worker: object,
    away: Connection,
    holder: Producer,
) -> None:
    found: Mapping[str, str] = overrides(away.bootstrap, "u11")
    tries: list[AdminAccess] = list_admin_access(found, None, Connection("127.0.0.1:1"), {})
    with pytest.raises(
        FencingError, match=r"TransactionalIdAuthorizationFailed.*retried automatically.*grant the permission"
    ) as refused:
        fence([holder.transactional_id], tries)
    assert "u11" not in str(refused.value)
    grant(worker, "u11", (IDS, holder.transactional_id, WRITE, ALLOW))  # type: ignore[arg-type]
    done = eventually(lambda: _fenced(holder.transactional_id, tries), 20, "it is granted")
    assert done
    with pytest.raises(Fenced):
        holder.commit(Deadline.after(20))


def _fenced(id_: str, tries: list[AdminAccess]) -> bool:
    try:
        return fence([id_], tries).message == ""
    except FencingError:
        return False


def test_a_task_writes_records_and_offsets_to_the_other_cluster_as_the_connectors_principal(
    cluster: Cluster,
    away: Connection,
    unique: Callable[[str], str],
) -> None:
    topic = unique("numbers")
    create_topics(away, [TopicSpec(topic)], Deadline.after(30))
    config = {"name": C, "connector.class": "VerifiableSource", "topic": topic, "throughput": "500"}
    cluster.command("create", {"config": {**config, **overrides(away.bootstrap, "root")}})
    placement = eventually(cluster.placement, 30)
    assert placement is not None
    reporter = Reporter(cluster.connection, cluster.config.status_topic, cluster.config.events_topic)
    task = threading.Thread(target=run_spec, args=(cluster.spec(placement), reporter), daemon=True)
    task.start()

    def numbers() -> list[int]:
        log = TopicLog(away, topic)
        try:
            return [int(record.value or b"-1") for record in log.read_to_end(Deadline.after(30))]
        finally:
            log.close()

    eventually(lambda: len(numbers()) > 100, 60, "visible records there", pause=0.2)
    assert cluster.command("stop")["ok"] is True
    task.join(30)
    reporter.close()
    seen = numbers()
    assert seen == list(range(len(seen)))
    found = read_offsets(away, cluster.config.offsets_topic, C, Deadline.after(30))
    assert [one.offset for one in found.present()] == [{"seqno": seen[-1]}]
