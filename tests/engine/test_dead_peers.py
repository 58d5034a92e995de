"""A worker whose process has ended leaves the group before its session expires; one that only hangs does not."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from ringfence.engine import dead_peers
from ringfence.engine.dead_peers import PeerWatch, describe_process, lives, remove_predecessor
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import group_members
from ringfence.fencing.kafka.membership import GroupMembership
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import WorkerRecord
from tests.support.broker import Broker
from tests.support.waiting import eventually

SESSION_MS = 300_000
"""Longer than anything here takes: who leaves the group was taken out of it."""

MEMBER = f"""
import sys
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.membership import GroupMembership

member = GroupMembership(
    Connection(sys.argv[1]), sys.argv[2], sys.argv[3], "w1@i1", lambda _: print("owns", flush=True), lambda: None,
    session_timeout_ms={SESSION_MS}, max_poll_interval_ms=600_000,
)
while True:
    member.poll(0.1)
"""


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_there_until_it_has_ended(sleeper: "subprocess.Popen[bytes]") -> None:
    described = describe_process(sleeper.pid)
    assert lives(described)
    sleeper.send_signal(signal.SIGSTOP)
    assert lives(described), "it may go on"
    sleeper.kill()
    eventually(lambda: lives(described) is False, 20, "a process that nobody has waited for yet has ended, too")
    sleeper.wait()
    assert lives(described) is False


def test_another_process_with_its_number_is_not_it(sleeper: "subprocess.Popen[bytes]") -> None:
    place, _, start = describe_process(sleeper.pid).rpartition("/")
    assert lives(f"{place}/{int(start) + 1}") is False


@pytest.mark.parametrize("process", ["", "x", "boot/pid:[1]/1/1", "/1/1", "a/b/c/d/e"])
def test_nothing_is_known_of_processes_elsewhere(process: str) -> None:
    assert lives(process) is None


def test_what_was_never_seen_alive_is_not_called_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of others may be invisible."""
    gone = f"{describe_process().rpartition('/')[0].rpartition('/')[0]}/{2**22 + 1}/1"
    record = WorkerRecord(WorkerId("w1"), Incarnation("i1"), "enabled", 1, "1", 0, process=gone)
    watch = PeerWatch(Connection("127.0.0.1:1"), ["g"], lambda: {record.worker: record})
    monkeypatch.setattr(dead_peers, "remove", lambda *_: pytest.fail("nobody knows that it has lived"))
    assert lives(gone) is False
    watch.look()


@pytest.mark.broker
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_next_one_owns_the_partition_at_once(
    broker: Broker, unique: Callable[[str], str], how: signal.Signals
) -> None:
    topic, group = unique("t"), unique("g")
    connection = Connection(broker.bootstrap)
    create_topics(connection, [TopicSpec(topic)], Deadline.after(60))
    first = subprocess.Popen(
        [sys.executable, "-c", MEMBER, broker.bootstrap, group, topic], stdout=subprocess.PIPE, env=dict(os.environ)
    )
    gained: list[object] = []
    second: GroupMembership | None = None
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"owns\n"
        record = WorkerRecord(
            WorkerId("w1"), Incarnation("i1"), "enabled", 1, "1", 0, process=describe_process(first.pid)
        )
        watch = PeerWatch(connection, [group, f"{group}-other"], lambda: {record.worker: record})
        watch.look()
        second = GroupMembership(
            connection, group, topic, "w2@i2", gained.append, lambda: None,
            session_timeout_ms=SESSION_MS, max_poll_interval_ms=600_000,
        )  # fmt: skip

        def joined() -> bool:
            assert second is not None
            second.poll(0.1)
            return len(group_members(connection, group, Deadline.after(10))) == 2

        eventually(joined, 60, "both are members", pause=0.0)
        first.send_signal(how)
        if how is signal.SIGKILL:
            eventually(lambda: lives(record.process) is False, 20, "it has ended")
        watch.look()

        def taken_over() -> bool:
            assert second is not None
            second.poll(0.1)
            return bool(gained)

        if how is signal.SIGKILL:
            eventually(taken_over, 60, "the other one is the owner", pause=0.0)
            left = [each.client_id for each in group_members(connection, group, Deadline.after(10))]
            assert left == ["w2@i2"]
        else:
            for _ in range(30):
                watch.look()
                assert not taken_over()
    finally:
        if second is not None:
            second.close()
        first.kill()
        first.wait()


@pytest.mark.broker
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_starts_again_removes_its_ended_process(
    broker: Broker, unique: Callable[[str], str], how: signal.Signals
) -> None:
    """Nobody else is there to see it end."""
    topic, group, status_topic = unique("t"), unique("g"), unique("s")
    connection = Connection(broker.bootstrap)
    create_topics(connection, [TopicSpec(topic), TopicSpec(status_topic)], Deadline.after(60))
    first = subprocess.Popen(
        [sys.executable, "-c", MEMBER, broker.bootstrap, group, topic], stdout=subprocess.PIPE, env=dict(os.environ)
    )
    reporter = Reporter(connection, status_topic, unique("e"))
    worker, incarnation = WorkerId("w1"), Incarnation("i1")

    def members() -> list[str]:
        return [each.client_id for each in group_members(connection, group, Deadline.after(10))]

    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"owns\n"
        record = WorkerRecord(worker, incarnation, "enabled", 1, "1", 0, process=describe_process(first.pid))
        reporter.status(record)
        reporter.flush(30)
        first.send_signal(how)
        if how is signal.SIGKILL:
            eventually(lambda: lives(record.process) is False, 20, "it has ended")
        remove_predecessor(connection, [group], status_topic, worker, Incarnation("another"))
        assert members() == ["w1@i1"], "what is known is about another incarnation"
        remove_predecessor(connection, [group], status_topic, worker, incarnation)
        assert members() == ([] if how is signal.SIGKILL else ["w1@i1"])
    finally:
        reporter.close()
        first.kill()
        first.wait()
