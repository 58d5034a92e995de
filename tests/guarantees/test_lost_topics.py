"""A topic that holds the cluster's state is replaced: attempts end, late ones do not begin, frozen ones are fenced."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Invalid
from ringfence.fencing.ids import Generation
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import Plugin, TaskSpec
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.config_records import ConnectorRecord, TaskCountRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.recovery import backup, backup_format
from ringfence.recovery.backup_format import Copy, OffsetCopy
from ringfence.recovery.restore import Restore
from tests.guarantees.stage import PARTITION, Counting, Plain, Script, Stage
from tests.support.broker import Broker
from tests.support.lost_topics import known, lose, new_stage, worker

SETTINGS = {"offset.flush.interval.ms": "60000", "transaction.timeout.ms": "60000"}
COMMIT = 5
"""The driver's process stops itself in this commit; each carries ten records."""


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    with new_stage(broker, unique) as made:
        yield made


def running(stage: Stage) -> dict[str, str]:
    config = {"topic": stage.data}
    stage.configure(config)
    stage.count()
    return config


@pytest.mark.parametrize(
    ("role", "joint"),
    [
        pytest.param("config", False, id="config"),
        pytest.param("offsets", False, id="offsets"),
        pytest.param("config", True, id="config, in a process of several"),
    ],
)
def test_a_task_ends_where_a_topic_is_gone_and_where_it_was_replaced(stage: Stage, role: str, joint: bool) -> None:
    if joint:
        stage.share_reads()
    topic = {"config": stage.topics.config, "offsets": stage.topics.offsets}[role]
    config = running(stage)
    script = Script(before_poll=lambda _task: time.sleep(0.01))
    attempt = stage.start(script, config, worker={"transaction.timeout.ms": "10000"})
    stage.wait_for(100)
    lose(stage, topic)
    if role == "config":
        create_topics(stage.connection, [TopicSpec(topic, 1)], Deadline.after(30))
    assert attempt.ended(100).reason == "superseded"  # it may wait for its open transaction to fail
    seen = stage.visible()
    assert seen == list(range(len(seen)))


def test_an_attempt_that_starts_late_ends_where_the_new_topic_says_the_same(stage: Stage) -> None:
    """As a task that was frozen before its start, or one that Spark hands out late."""
    config = running(stage)
    placed = stage.place(1)
    lose(stage, stage.topics.config)
    create_topics(stage.connection, [TopicSpec(stage.topics.config, 1)], Deadline.after(30))
    running(stage)
    assert stage.place(1) == placed  # the very records, at the very offsets
    spec = TaskSpec(stage.connection, stage.group, stage.topics, stage.task, placed, "", config, config, SETTINGS)
    reporter = Reporter(stage.connection, stage.topics.status, stage.topics.events)
    plugin = Plugin(type("Scripted", (Counting,), {"script": Script(limit=50)}), config, Plain(raw=True))
    assert SourceTaskRun(spec, plugin, reporter).run().reason == "superseded"
    reporter.close()
    assert stage.visible() == []


def frozen(stage: Stage, config: Mapping[str, str]) -> "subprocess.Popen[str]":
    """An attempt in a process of its own that has stopped itself between its data and its offsets."""
    placed = stage.place(1)
    spec = TaskSpec(stage.connection, stage.group, stage.topics, stage.task, placed, "", config, config, SETTINGS)
    command = [sys.executable, "-m", "tests.fencing.driver", "transactions", str(COMMIT), spec.dumps()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "between data and offsets\n"
    return process


def state_of(stage: Stage) -> ClusterState:
    log = ConfigLog(stage.connection, stage.topics.config, Deadline.after(30))
    try:
        return log.refresh(Deadline.after(30))
    finally:
        log.close()


@pytest.mark.parametrize("source", ["file", "no memory of the topics"])
def test_a_frozen_task_cannot_commit_after_the_restore(stage: Stage, source: str) -> None:
    before = known(stage)
    config = running(stage)
    copy = backup_format.loads(backup.from_kafka(stage.connection, worker(stage), Deadline.after(60)).dumps())
    assert copy.connectors[stage.connector].tasks == 1
    zombie = frozen(stage, config)
    try:
        lose(stage, stage.topics.config)
        remembered = before if source == "file" else None
        said: list[str] = []
        done = Restore(worker(stage), remembered, said.append).run(copy, resume=False)
        assert (done.connectors, done.offsets, done.stopped) == (1, 0, False)
        assert list(done.fenced) == [f"{stage.group}-{stage.task}"]
        zombie.send_signal(signal.SIGCONT)
        said_last, _ = zombie.communicate(timeout=60)
        assert said_last.strip() == "superseded"
    finally:
        zombie.kill()
        zombie.wait(30)
    assert len(stage.visible()) == 10 * (COMMIT - 1)  # what it had open when it froze is not there
    restored = state_of(stage).connector(stage.connector)
    assert restored.config == {"topic": stage.data}
    assert restored.count is not None
    assert restored.count.tasks == 1
    # The next generation goes on, after its round.
    stage.topics = replace(stage.topics, config_id="")
    stage.start(Script(batch=10, limit=400), running(stage), attempt=1)
    stage.wait_for(400)
    assert stage.exact(400) == 400
    assert known(stage).version == (before.version if remembered else 0) + 1


def test_lost_offsets_come_back_and_everything_waits_for_a_person(stage: Stage) -> None:
    before = known(stage)
    running(stage)
    offset = OffsetCopy(stage.connector, PARTITION, {"next": 7})
    copy = backup.from_kafka(stage.connection, worker(stage), Deadline.after(60))
    lose(stage, stage.topics.offsets)
    done = Restore(worker(stage), before, print).run(replace(copy, offsets=[offset]), resume=False)
    assert (done.connectors, done.offsets, done.stopped) == (0, 1, True)
    assert stage.offset() == 7
    connector = state_of(stage).connector(stage.connector)
    assert connector.target is TargetState.STOPPED
    assert connector.commit is not None
    assert connector.commit.tasks == 0
    assert connector.round_pending  # the round fences what may be alive before anybody resumes it


def test_a_restore_with_nothing_lost_changes_nothing(stage: Stage) -> None:
    before = known(stage)
    running(stage)
    end = state_of(stage).end
    copy = Copy(stage.group, 0, "a test", {}, [])
    with pytest.raises(Invalid, match="Nothing is lost"):
        Restore(worker(stage), before, print).run(copy, resume=False)
    with pytest.raises(Invalid, match="is a copy of group"):
        Restore(worker(stage), before, print).run(replace(copy, group_id="other"), resume=False)
    assert state_of(stage).end == end


def test_topics_that_a_person_accepts_are_gone_by(stage: Stage) -> None:
    before = known(stage)
    running(stage)
    lose(stage, stage.topics.config)
    create_topics(stage.connection, [TopicSpec(stage.topics.config, 1)], Deadline.after(30))
    stage.write(
        ConnectorRecord(stage.connector, {"topic": stage.data}), TaskCountRecord(stage.connector, 2, Generation(9))
    )
    Restore(worker(stage), before, print).accept()
    assert known(stage).version == before.version + 1
    count = state_of(stage).connector(stage.connector).count
    assert count is not None
    assert (count.tasks, count.generation) == (2, 0)
