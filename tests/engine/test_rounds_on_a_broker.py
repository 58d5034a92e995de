"""Fencing rounds on the real broker, with a real leader: the old tasks' moment."""

import threading
from collections.abc import Callable, Mapping

from fencing.clock import Deadline
from fencing.kafka.reporter import Reporter
from fencing.status import State
from fencing.topic_log import TopicLog
from ringfence.engine.task_host import run_spec
from tests.engine.test_restarts_on_a_broker import C, Cluster, cluster  # noqa: F401 - a fixture
from tests.plugins.conftest import environment  # noqa: F401 - a fixture
from tests.support.waiting import eventually


def visible(cluster: Cluster, topic: str) -> int:  # noqa: F811 - no fixture here
    log = TopicLog(cluster.connection, topic)
    try:
        return sum(1 for _ in log.read_to_end(Deadline.after(30)))
    finally:
        log.close()


def run(cluster: Cluster) -> threading.Thread:  # noqa: F811 - no fixture here
    """The newest attempt, on a thread."""
    placement = eventually(cluster.placement, 30)
    assert placement
    reporter = Reporter(cluster.connection, cluster.config.status_topic, cluster.config.events_topic)
    task = threading.Thread(target=run_spec, args=(cluster.spec(placement), reporter), daemon=True)
    task.start()
    return task


def round_stages(cluster: Cluster) -> list[Mapping[str, object]]:  # noqa: F811 - no fixture here
    return [event for event in cluster.events() if event["type"] == "round"]


def test_old_tasks_commit_what_is_open_though_their_successors_are_announced_before_the_fence(
    cluster: Cluster,  # noqa: F811 - the fixture that is imported above
    unique: Callable[[str], str],
) -> None:
    topic = unique("numbers")
    minutes = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "240000"}
    config = {"name": C, "connector.class": "VerifiableSource", "topic": topic, "throughput": "1000", **minutes}
    cluster.command("create", {"config": config})
    old = run(cluster)
    eventually(lambda: cluster.status().state is State.RUNNING, 30, "the first generation runs")

    def polled() -> int:
        reports = [event for event in cluster.events() if event["type"] == "progress"]
        return int(str(reports[-1]["open_records"])) if reports else 0

    eventually(lambda: polled() > 500, 30, "an open transaction", pause=0.2)
    cluster.command("configure", {"config": {**config, "throughput": "999"}})
    eventually(lambda: cluster.leader.state().connector(C).runnable, 30, "the round is over")
    old.join(30)
    assert not old.is_alive()
    assert visible(cluster, topic) > 500
    done = [event for event in round_stages(cluster) if event["stage"] == "done"]
    assert "1 fenced" in str(done[-1]["message"])
