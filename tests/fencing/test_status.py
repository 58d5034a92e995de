"""The status topic: Kafka Connect's statuses with our extra fields, and late reports that must replace nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.topics import status
from ringfence.fencing.topics.active_topics import TopicStatus, key_of
from ringfence.fencing.topics.status import (
    FAILED,
    LOST,
    PLACED,
    SUPERSEDED,
    AnswerRecord,
    ConnectorStatus,
    LeaderRecord,
    State,
    StatusRecord,
    StatusState,
    StatusTombstone,
    SuspicionRecord,
    TaskStatus,
    Trust,
    WorkerRecord,
    apply,
    decode,
    encode,
)

TASK = TaskId(ConnectorName("a-1"), 0)
W, I = WorkerId("w"), Incarnation("i")  # noqa: E741
running = TaskStatus(TASK, State.RUNNING, W, Generation(5), 2, I, since_ms=1_000)


def fold(*records: StatusRecord | None) -> StatusState:
    state = StatusState()
    for record in records:
        state = apply(state, record)
    return state


@pytest.mark.parametrize(
    "record",
    [
        ConnectorStatus(ConnectorName("a-1"), State.FAILED, W, Generation(5), "trace"),
        running,
        replace(running, state=State.FAILED, trace="Traceback …", ended=True, why=FAILED),
        WorkerRecord(W, I, "enabled", 4, "0.1.0", 7),
        LeaderRecord(W, I, 3, 7),
        SuspicionRecord(W, I, Trust.CALMING, 2, 5, "w2", 7),
        AnswerRecord(W, I, 5),
        TopicStatus(ConnectorName("a:connector-b"), "t.1", 3, 17),
        replace(running, version="1.2.0"),
        StatusTombstone("status-task-a-1-0"),
    ],
)
def test_what_is_written_is_read_back(record: StatusRecord) -> None:
    assert decode(*encode(record)) == record


def test_kafka_connects_own_status_is_read() -> None:
    value = b'{"state":"RUNNING","trace":null,"worker_id":"10.0.0.1:8083","generation":7}'
    read = decode(b"status-task-a-1-0", value)
    assert read == TaskStatus(TASK, State.RUNNING, WorkerId("10.0.0.1:8083"), Generation(7), 0, Incarnation(""))
    connector = decode(b"status-connector-a-1", value)
    assert connector == ConnectorStatus(ConnectorName("a-1"), State.RUNNING, WorkerId("10.0.0.1:8083"), Generation(7))


@given(st.none() | st.binary(), st.binary())
def test_no_bytes_crash_the_reader(key: bytes | None, value: bytes) -> None:
    decode(key, value)


@pytest.mark.parametrize(
    "key, value",
    [
        (b"status-topic-t:connector-a", b'{"topic":{}}'),
        (b"status-task-a-x", b'{"state":"RUNNING","worker_id":"w"}'),
        (b"status-task-a-0", b'{"state":"DANCING","worker_id":"w"}'),
        (b"status-task-a-0", b"[1]"),
        (b"status-task-a-0", b"[" * 100_000),
        (b"\xff", b"{}"),
        (b"mine", b"{}"),
    ],
)
def test_what_is_not_ours_to_understand_is_passed_over(key: bytes, value: bytes) -> None:
    read = decode(key, value)
    assert read is None
    assert apply(fold(running), read) == fold(running)


def test_the_newest_report_of_an_attempt_counts() -> None:
    failed = replace(running, state=State.FAILED, ended=True, why=FAILED)
    assert fold(running, failed).tasks[TASK] == failed


def test_a_newer_attempt_replaces_an_older_one_and_never_the_other_way_round() -> None:
    newer = replace(running, attempt=3, since_ms=500)  # on a machine whose clock is behind
    assert fold(running, newer).tasks[TASK] == newer
    assert fold(newer, running).tasks[TASK] == newer


def test_a_late_report_of_another_generation_replaces_nothing_newer() -> None:
    later = replace(running, generation=Generation(9), attempt=1, since_ms=2_000)
    assert fold(running, later).tasks[TASK] == later
    assert fold(later, running).tasks[TASK] == later


def test_a_recreated_config_topic_starts_again_with_smaller_generations() -> None:
    later = replace(running, generation=Generation(1), attempt=1, since_ms=2_000)
    assert fold(running, later).tasks[TASK] == later


def test_an_announcement_does_not_hide_what_the_attempt_has_already_said() -> None:
    placed = replace(running, state=State.UNASSIGNED, why=PLACED)
    assert fold(placed, running).tasks[TASK] == running
    assert fold(running, placed).tasks[TASK] == running
    newer = replace(placed, attempt=3)
    assert fold(running, newer).tasks[TASK] == newer


def test_a_quiet_end_is_told_of_the_attempt_that_is_shown_and_of_no_other() -> None:
    end = replace(running, state=State.UNASSIGNED, ended=True, why=SUPERSEDED)
    assert fold(running, end).tasks[TASK] == end
    newer = replace(running, attempt=3)
    assert fold(newer, end).tasks[TASK] == newer
    assert TASK not in fold(end).tasks


def test_a_lost_attempt_is_told_by_somebody_else_and_counts() -> None:
    lost = replace(running, state=State.UNASSIGNED, ended=True, why=LOST)
    assert fold(running, lost).tasks[TASK] == lost


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.sampled_from([StatusTombstone("status-task-a-1-0"), StatusTombstone("status-topic-t:connector-a")]),
            st.just(TopicStatus(ConnectorName("a"), "t", 0, 1)),
            st.builds(
                lambda attempt, state, ended, task: replace(
                    running, task=TaskId(ConnectorName("a-1"), task), attempt=attempt, state=state, ended=ended
                ),
                st.integers(1, 4),
                st.sampled_from([State.RUNNING, State.UNASSIGNED, State.FAILED]),
                st.booleans(),
                st.integers(0, 1),
            ),
        ),
        max_size=12,
    )
)
def test_many_records_at_once_are_the_same_as_one_after_another(records: list[StatusRecord | None]) -> None:
    first, second = records[: len(records) // 2], records[len(records) // 2 :]
    before = status.fold(StatusState(), first)
    copies = dict(before.tasks), dict(before.leaving), dict(before.topics)
    after = status.fold(before, second)
    assert after == fold(*records)
    assert (before.tasks, before.leaving, before.topics) == copies, "a state that was passed on does not change"
    at_work = [one for one in (*after.tasks.values(), *after.leaving.values()) if one.at_work]
    assert sorted(after.at_work(ConnectorName("a-1")), key=str) == sorted(at_work, key=str)
    assert list(after.at_work(ConnectorName("b"))) == []


def test_a_tombstone_removes_what_it_names_and_nothing_else() -> None:
    other = replace(running, task=TaskId(ConnectorName("a-1"), 1))
    worker, leader = WorkerRecord(W, I, "enabled", 4, "0.1.0", 7), LeaderRecord(W, I, 3, 7)
    connector = ConnectorStatus(ConnectorName("a-1"), State.RUNNING, W, Generation(5))
    suspicion, answer = SuspicionRecord(W, I, Trust.SUSPECTED, 1, 1), AnswerRecord(W, I, 1)
    full = fold(running, other, worker, leader, connector, suspicion, answer)
    assert apply(full, StatusTombstone("status-task-a-1-0")) == replace(full, tasks={other.task: other})
    assert apply(full, StatusTombstone("worker-w")) == replace(full, workers={})
    assert apply(full, StatusTombstone("leader")) == replace(full, leader=None)
    assert apply(full, StatusTombstone("suspicion-w")) == replace(full, suspicions={})
    assert apply(full, StatusTombstone("answer-w")) == replace(full, answers={})
    assert apply(full, StatusTombstone("status-connector-a-1")) == replace(full, connectors={})


def test_active_topics_are_kafka_connects_records() -> None:
    value = b'{"topic":{"name":"t-1","connector":"f1","task":0,"discoverTimestamp":1795278445385}}'
    read = decode(b"status-topic-t-1:connector-f1", value)
    assert read == TopicStatus(ConnectorName("f1"), "t-1", 0, 1795278445385)
    assert encode(read) == (b"status-topic-t-1:connector-f1", value)


def test_active_topics_fold_by_connector_and_a_tombstone_takes_one_out() -> None:
    name, other = ConnectorName("a"), ConnectorName("b")
    told = [TopicStatus(name, "t", 0, 1), TopicStatus(name, "u", 0, 1), TopicStatus(other, "t", 0, 1)]
    state = fold(*told)
    assert state.topics == {name: {"t", "u"}, other: {"t"}}
    state = apply(state, StatusTombstone(key_of(name, "t")))
    assert state.topics == {name: {"u"}, other: {"t"}}
    assert apply(state, StatusTombstone(key_of(name, "u"))).topics == {other: {"t"}}


def test_an_attempt_that_is_at_work_is_waited_for_after_the_next_generation_was_announced() -> None:
    announced = replace(running, state=State.UNASSIGNED, why=PLACED, generation=Generation(9), attempt=1)
    state = fold(running, announced)
    assert state.tasks == {TASK: announced}
    assert list(state.at_work(TASK.connector)) == [running]
    assert list(state.at_work(ConnectorName("a"))) == []
    newer = replace(announced, generation=Generation(12))
    assert list(apply(state, newer).at_work(TASK.connector)) == [running]


@pytest.mark.parametrize("why", [SUPERSEDED, LOST, FAILED])
def test_it_is_waited_for_no_longer_when_it_has_ended_whatever_ended_it(why: str) -> None:
    announced = replace(running, state=State.UNASSIGNED, why=PLACED, generation=Generation(9), attempt=1)
    ended = replace(running, state=State.UNASSIGNED, why=why, ended=True)
    assert list(fold(running, announced, ended).at_work(TASK.connector)) == []


def test_nobody_is_leaving_once_the_newest_attempt_is_at_work_or_the_task_is_gone() -> None:
    announced = replace(running, state=State.UNASSIGNED, why=PLACED, generation=Generation(9), attempt=1)
    works = replace(announced, state=State.RUNNING, why="", since_ms=2_000)
    assert fold(running, announced, works).leaving == {}
    assert fold(running, announced, StatusTombstone("status-task-a-1-0")).leaving == {}
    assert fold(running, announced, StatusTombstone("status-task-a-1-1")).leaving != {}
