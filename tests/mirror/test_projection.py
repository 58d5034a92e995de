"""The database follows the topics, exactly once, whatever happens between two batches."""

from dataclasses import replace

import pytest

from ringfence.fencing.errors import TopicLost
from ringfence.fencing.ids import ConnectorName, Incarnation, WorkerId
from ringfence.fencing.topics.active_topics import TopicStatus
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import (
    SUPERSEDED,
    LeaderRecord,
    PollRetry,
    State,
    StatusTombstone,
    SuspicionRecord,
    Trust,
    WorkerRecord,
)
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.fencing.topics.topic_ids import Topic as Topic_
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.projection.models import (
    ActiveTopic,
    ClusterInfo,
    Connector,
    Event,
    GenerationRow,
    Minute,
    SourceOffset,
    Suspicion,
    Task,
    TopicPosition,
    Worker,
)
from ringfence.projection.positions import Superseded, shown_offset
from ringfence.projection.projector import Projection
from ringfence.recovery.backup import from_database
from ringfence.recovery.restore import connector_records
from tests.support.projections import C, progress, project, running
from tests.support.topics import Topic, connector, connector_status, generation, task_status


def test_a_connector_appears_with_its_tasks_and_generation() -> None:
    config = Topic()
    config.config(connector("c", topic="flights"), *generation("c", 2, 1))
    assert project("config", config) == {"c"}
    row = Connector.objects.get()
    assert (row.name, row.known, row.generation, row.task_count, row.target) == ("c", True, 3, 2, "RUNNING")
    assert row.settings["topic"] == "flights"
    assert not row.fencing
    assert [task.settings for task in Task.objects.order_by("number")] == [{"task.id": "0"}, {"task.id": "1"}]
    made = GenerationRow.objects.get()
    assert (made.generation, made.tasks, made.stage) == (3, 2, "done")
    assert shown_offset("config", 0) == 5


def test_a_generation_without_its_count_waits_for_its_fence() -> None:
    config = Topic()
    config.config(connector("c"), *generation("c", 1, 1), connector("c", more="1"), *list(generation("c", 2, 5))[:-1])
    project("config", config)
    row = Connector.objects.get()
    assert (row.health, row.fencing) == ("FENCING", True)
    assert [r.stage for r in GenerationRow.objects.order_by("generation")] == ["done", "pending"]


def test_fewer_tasks_leave_no_row_behind() -> None:
    config = Topic()
    config.config(connector("c"), *generation("c", 3, 1), *generation("c", 1, 6))
    project("config", config)
    assert list(Task.objects.values_list("number", flat=True)) == [0]


def test_health_follows_the_tasks() -> None:
    running()
    assert Connector.objects.get().health == "HEALTHY"
    status = Topic()
    status.records = [*status.status(*[connector_status("c", State.RUNNING)] * 3)]
    failed = task_status("c", 1, State.FAILED, 3, "no such file")
    status.status(replace(failed, since_ms=2_000_000_000_000))
    project("status", status)
    row = Connector.objects.get()
    assert (row.health, row.tasks_running, row.tasks_failed) == ("DEGRADED", 1, 1)
    assert row.severity > 50


@pytest.mark.parametrize("batches", [1, 2])
def test_the_late_word_of_a_superseded_attempt_changes_nothing(batches: int) -> None:
    running(1)
    zombie = task_status("c", 0, State.RUNNING)
    status = Topic()
    status.records = [*status.status(*[connector_status("c", State.RUNNING)] * 2)]
    status.status(replace(zombie, attempt=2, worker=WorkerId("w2")))
    if batches == 2:
        project("status", status)
    status.status(replace(zombie, state=State.UNASSIGNED, ended=True, why=SUPERSEDED))
    project("status", status)
    assert list(Task.objects.values_list("state", "worker", "attempt")) == [("RUNNING", "w2", 2)]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_task_keeps_its_version_while_others_report_for_it(batches: int) -> None:
    """Worker and leader say that it is to be placed, or lost, and do not know its class."""
    running(1)
    told = replace(task_status("c", 0, State.RUNNING), version="1.2")
    status = Topic()
    status.records = [*status.status(*[connector_status("c", State.RUNNING)] * 2)]
    status.status(told)
    if batches == 2:
        project("status", status)
    status.status(replace(told, attempt=2, state=State.UNASSIGNED, version=None))
    project("status", status)
    assert list(Task.objects.values_list("state", "attempt", "version")) == [("UNASSIGNED", 2, "1.2")]


def test_a_connector_without_tasks_is_not_healthy() -> None:
    running(tasks=0)
    assert Connector.objects.get().health == "UNHEALTHY"


def test_a_status_that_comes_before_its_config_is_kept_and_not_shown() -> None:
    status = Topic()
    status.status(connector_status("c", State.RUNNING))
    project("status", status)
    assert not Connector.objects.filter(known=True).exists()
    config = Topic()
    config.config(connector("c"))
    project("config", config)
    row = Connector.objects.get(known=True)
    assert row.state == "RUNNING"


def test_a_deleted_connector_is_gone_when_both_topics_say_so() -> None:
    config, status = Topic(), Topic()
    config.config(connector("c"), *generation("c", 1, 1))
    status.status(connector_status("c", State.RUNNING), task_status("c", 0, State.RUNNING))
    project("config", config)
    project("status", status)
    config.config(CommitRecord(C, 0), ConnectorRecord(C, None), TargetStateRecord(C, None))
    project("config", config)
    assert not Connector.objects.filter(known=True).exists()
    status.status(StatusTombstone("status-connector-c"), StatusTombstone("status-task-c-0"))
    project("status", status)
    assert not Connector.objects.exists()
    assert not Task.objects.exists()


def test_a_target_state_is_shown_beside_the_state() -> None:
    running()
    config = Topic()
    config.config(connector("c"), *generation("c", 2, 1), TargetStateRecord(C, TargetState.PAUSED))
    project("config", config)
    row = Connector.objects.get()
    assert (row.target, row.state, row.health) == ("PAUSED", "RUNNING", "PAUSING")


def test_an_unreadable_value_fails_that_connector_and_says_where() -> None:
    config = Topic()
    config.config(connector("good"))
    config.raw(b"connector-bad", b"{not json")
    project("config", config)
    bad = Connector.objects.get(name="bad")
    assert bad.health == "UNHEALTHY"
    assert "offset 1" in bad.unreadable
    assert "connector-bad" in bad.unreadable
    assert Connector.objects.get(name="good").unreadable == ""
    assert Event.objects.get(type="warning").summary == bad.unreadable


def test_an_unknown_key_is_warned_about() -> None:
    config = Topic()
    config.raw(b"new-in-connect-5", b"{}")
    project("config", config)
    assert "new-in-connect-5" in Event.objects.get().summary


def test_a_projector_that_was_killed_goes_on_where_it_stood() -> None:
    config = Topic()
    config.config(connector("c"), *generation("c", 1, 1))
    project("config", config)
    config.config(*generation("c", 4, 4))
    project("config", config)
    assert Connector.objects.get().task_count == 4
    assert GenerationRow.objects.count() == 2


def test_a_batch_that_another_projector_has_written_writes_nothing() -> None:
    events = Topic()
    mine, other = Projection("events", "t", "id"), Projection("events", "t", "id")
    batch = events.event(type="note", connector="c", message="once")
    other.apply(batch, events.end)
    with pytest.raises(Superseded):
        mine.apply(batch, events.end)
    assert Event.objects.count() == 1
    later = events.event(type="note", connector="c", message="twice")
    with pytest.raises(Superseded):
        mine.apply(later, events.end)
    other.apply(later, events.end)
    assert Event.objects.count() == 2


def test_records_that_were_applied_already_count_once() -> None:
    events = Topic()
    projection = Projection("events", "t", "id")
    events.event(type="note", connector="c")
    projection.apply(events.records, events.end)
    events.event(type="note", connector="c")
    projection.apply(events.records, events.end)
    assert Event.objects.count() == 2


def test_markers_move_the_position_without_a_record() -> None:
    projection = Projection("config", "t", "id")
    assert not projection.behind({0: 0})
    assert projection.behind({0: 7})
    projection.apply([], {0: 7})
    assert shown_offset("config", 0) == 7


def test_a_topic_that_was_replaced_is_read_from_its_beginning_once_somebody_accepts_it() -> None:
    old, new = Topic(), Topic()
    old.config(connector("old"), *generation("old", 1, 1))
    project("config", old, "id-1")
    new.config(connector("new"))
    with pytest.raises(TopicLost, match="id-2, it was id-1"):
        project("config", new, "id-2")
    assert list(Connector.objects.values_list("name", flat=True)) == ["old"]
    project("config", new, "id-2", TopicIds(1, {"config": Topic_("config-topic", "id-2")}))
    assert list(Connector.objects.values_list("name", flat=True)) == ["new"]
    assert TopicPosition.objects.get().topic_id == "id-2"
    assert shown_offset("config", 0) == 1


def test_workers_and_leader_are_shown() -> None:
    status = Topic()
    status.status(
        WorkerRecord(WorkerId("w1"), Incarnation("i1"), "enabled", 8, "0.1", 5),
        LeaderRecord(WorkerId("w1"), Incarnation("i1"), 3, 6),
        WorkerRecord(WorkerId("w2"), Incarnation("i2"), "enabled", 8, "0.1", 5),
        StatusTombstone("worker-w2"),
    )
    project("status", status)
    assert [worker.worker for worker in Worker.objects.all()] == ["w1"]
    assert ClusterInfo.objects.get().leader == "w1"


def test_what_is_thought_of_a_worker_is_shown_until_it_is_removed() -> None:
    status = Topic()
    record = SuspicionRecord(WorkerId("w1"), Incarnation("i1"), Trust.SUSPECTED, 1, 4, "w2", 7)
    status.status(record)
    project("status", status)
    assert list(Suspicion.objects.values_list()) == [("w1", "i1", "suspected", 1, 7)]
    status.status(replace(record, trust=Trust.CALMING, since_ms=8))
    project("status", status)
    assert list(Suspicion.objects.values_list()) == [("w1", "i1", "calming", 1, 8)]
    status.status(StatusTombstone("suspicion-w1"))
    project("status", status)
    assert not Suspicion.objects.exists()


def test_the_timeline_says_that_a_worker_was_silent() -> None:
    running(tasks=1)
    status = Topic()
    first, second = Incarnation("first"), Incarnation("second")
    status.status(WorkerRecord(WorkerId("w1"), first, "enabled", 4, "1", 1))
    status.status(SuspicionRecord(WorkerId("w1"), first, Trust.SUSPECTED, 1, 1))
    placed = replace(task_status("c", 0, State.RUNNING), incarnation=first, worker=WorkerId("w1"))
    again = replace(task_status("c", 0, State.UNASSIGNED), incarnation=second, attempt=2, why="placed")
    status.status(placed, again)
    project("status", status, "id-2")
    told = Event.objects.get(type="warning").summary
    assert told == "w1 was silent: its task starts again from the committed offsets"


def test_an_odd_status_is_passed_over() -> None:
    status = Topic()
    status.raw(b"status-topic-x:connector-c", b"{}")
    status.raw(b"status-connector-c", b"[]")
    status.raw(None, None)
    assert project("status", status) == set()


def test_since_begins_with_the_state_and_not_with_its_repetition() -> None:
    status = Topic()
    status.raw(*_encoded("RUNNING"), at=10)
    project("status", status)
    status.raw(*_encoded("RUNNING"), at=20)
    project("status", status)
    assert Connector.objects.get().since_ms == 10
    status.raw(*_encoded("PAUSED"), at=30)
    project("status", status)
    assert Connector.objects.get().since_ms == 30


def _encoded(state: str) -> tuple[bytes, bytes]:
    return b"status-connector-c", f'{{"state":"{state}","trace":null,"worker_id":"w","generation":1}}'.encode()


def test_source_offsets_are_compared_parsed_and_deleted_by_tombstones() -> None:
    offsets = Topic()
    offsets.raw(b'["c", {"b": 1, "a": 2}]', b'{"seqno":1}')
    offsets.raw(b'["c",{"a":2,"b":1}]', b'{"seqno":2}')
    offsets.offset("c", {"id": 0}, {"seqno": 9})
    offsets.raw(b"not json", b"{}")
    offsets.raw(b'"no list"', b"{}")
    assert project("offsets", offsets) == {"c"}
    assert sorted(SourceOffset.objects.values_list("partition", "offset")) == [
        ('{"a":2,"b":1}', '{"seqno":2}'),
        ('{"id":0}', '{"seqno":9}'),
    ]
    offsets.offset("c", {"id": 0}, None)
    project("offsets", offsets)
    assert SourceOffset.objects.count() == 1


def test_progress_becomes_a_rate_and_minute_cells() -> None:
    running(tasks=1)
    events = Topic()
    progress(events, 59_000, 100)
    progress(events, 61_000, 300, open_records=7, producer_id=4, epoch=2)
    project("events", events)
    task = Task.objects.get()
    assert (task.rate, Connector.objects.get().records_total, task.open_records, task.producer_id) == (100, 300, 7, 4)
    cells = list(
        Minute.objects.filter(connector="c", task=0).order_by("minute").values_list("minute", "records", "commits")
    )
    assert cells == [(0, 100, 10), (1, 200, 20)]


def test_a_new_attempt_goes_on_counting_and_a_zombie_does_not_count() -> None:
    running(tasks=1)
    events = Topic()
    progress(events, 1_000, 100)
    progress(events, 2_000, 40, attempt=2)
    progress(events, 3_000, 150)  # the first attempt again, replaced by now
    progress(events, 4_000, 90, attempt=2)
    project("events", events)
    assert Connector.objects.get().records_total == 190


def test_a_round_tells_its_stages() -> None:
    config, events = Topic(), Topic()
    config.config(connector("c"), CommitRecord(C, 2))
    project("config", config)
    fenced = [{"id": "g-c-0", "producer_id": 1, "epoch": 3}]
    events.event(type="round", connector="c", generation=1, stage="fencing", tasks=2, time_ms=5)
    events.event(type="round", connector="c", generation=1, stage="done", tasks=2, fenced=fenced, ms=12, time_ms=17)
    project("events", events)
    row = GenerationRow.objects.get()
    assert (row.stage, row.started_ms, row.ended_ms, row.took_ms) == ("done", 5, 17, 12)
    assert row.fenced_ids == fenced
    assert [event.summary for event in Event.objects.order_by("id")] == [
        "Generation 1: fencing",
        "Generation 1 started: 1 older transactional id fenced",
    ]


def test_reports_of_any_form_are_taken() -> None:
    events = Topic()
    events.raw(b"c", b"no json")
    events.raw(b"c", b'{"type": 5}')
    events.event(type="progress", connector="c", task="x", records="many")
    events.event(type="round", connector=5, generation="g", fenced="x")
    events.event(type="task", connector="c", task=[1], message={})
    events.event(type="something new", connector="c")
    project("events", events)
    assert "something new" in Event.objects.values_list("summary", flat=True)


def test_texts_that_no_database_takes_are_made_fit() -> None:
    config, status, offsets, events = Topic(), Topic(), Topic(), Topic()
    config.raw(b"connector-c", b'{"properties":{"connector.class":"a\\u0000b\\ud800","x":"\\udfff"}}')
    status.raw(b"status-connector-c", b'{"state":"FAILED","trace":"\\ud800\\u0000","worker_id":"w\\udc00"}')
    offsets.raw(b'["c", {"f": "\\ud800"}]', b'{"o":"\\u0000"}')
    events.raw(b"c", b'{"type":"note","connector":"c","message":"\\ud800\\u0000","time_ms":1}')
    for role, topic in (("config", config), ("status", status), ("offsets", offsets), ("events", events)):
        project(role, topic)
    row = Connector.objects.get()
    assert (row.class_name, row.settings["x"], row.trace, row.worker) == ("a\ufffdb?", "?", "?\ufffd", "w?")
    assert SourceOffset.objects.get().connector == "c"
    assert Event.objects.get().summary.endswith("?\ufffd")


def test_a_copy_from_the_database_limits_a_connector_to_the_topics_of_its_editor() -> None:
    config = Topic()
    limited = TopicGrantRecord(C, (("team-*",),), "alice")
    everywhere = TopicGrantRecord(ConnectorName("d"), (), "boss")
    config.config(limited, connector("c"), everywhere, connector("d"), connector("e"))
    project("config", config)
    Connector.objects.update(topic_grant="")  # as the version before has left them
    project("config", config)
    copies = from_database("group").connectors
    grants = {name: (copy.topics, copy.saved_by) for name, copy in copies.items()}
    assert grants == {"c": ((("team-*",),), "alice"), "d": ((), "boss"), "e": ((), "")}
    records = [
        record
        for name, copy in sorted(copies.items())
        for record in connector_records(ConnectorName(name), copy, 1, stop=True)
    ]
    restored = [record for record in records if isinstance(record, TopicGrantRecord)]
    assert restored == [limited, everywhere], "a later limit on the account of d must reach d, too"


def test_a_source_that_refuses_makes_a_connector_retry_until_it_answers() -> None:
    running()
    refused = PollRetry("connection refused\x00", 5, 3, 9)
    status = Topic()
    status.status(connector_status("c", State.RUNNING), *(task_status("c", n, State.RUNNING) for n in range(2)))
    status.status(replace(task_status("c", 1, State.RUNNING), retry=refused))
    project("status", status)
    row = Connector.objects.get()
    assert (row.health, row.tasks_running, row.tasks_failed) == ("RETRYING", 2, 0)
    assert row.severity > 75, "among the first of a list"
    assert Task.objects.get(number=0).poll_retry is None
    told = Task.objects.get(number=1).poll_retry
    assert told is not None
    assert (told.since_ms, told.attempts, told.next_ms) == (5, 3, 9)
    status.status(task_status("c", 1, State.RUNNING))
    project("status", status)
    assert Connector.objects.get().health == "HEALTHY"


def failed_and_started_again() -> Topic:
    running(tasks=1)
    status = Topic()
    newest = Connector.objects.get().generation
    failed = replace(task_status("c", 0, State.FAILED, newest), trace="ValueError: no", since_ms=10_000)
    again = replace(task_status("c", 0, State.RUNNING, newest), attempt=2, since_ms=11_000)
    status.status(connector_status("c", State.RUNNING), failed, again)
    project("status", status, "id-2")
    task, row = Task.objects.get(), Connector.objects.get()
    assert (task.trace, task.failed_trace, task.failed_ms) == ("", "ValueError: no", 10_000)
    assert (row.health, row.trouble, row.trouble_since_ms) == ("RETRYING", "failure", 10_000)
    return status


@pytest.mark.parametrize(
    ("numbers", "recovers"),
    [
        ({"last_commit_ms": 10_001}, True),
        ({"last_commit_ms": 9_999, "last_answer_ms": 40_000}, False),
        ({"last_answer_ms": 41_000}, True),
    ],
    ids=["records flowed", "they flowed before", "the source answered for a while"],
)
def test_a_task_that_was_started_again_has_recovered_when_something_shows_it(
    numbers: dict[str, int], recovers: bool
) -> None:
    failed_and_started_again()
    events = Topic()
    progress(events, 12_000, 0, generation=Connector.objects.get().generation, attempt=2, **numbers)
    project("events", events)
    task, row = Task.objects.get(), Connector.objects.get()
    assert (task.failed_ms == 0, task.failed_trace == "") == (recovers, recovers)
    assert row.health == ("HEALTHY" if recovers else "RETRYING")


def test_a_failure_of_an_older_generation_is_over_with_it() -> None:
    status = failed_and_started_again()
    status.status(replace(task_status("c", 0, State.RUNNING, 99), since_ms=12_000))
    project("status", status, "id-2")
    assert Task.objects.get().failed_ms == 0


def test_a_topic_that_was_deleted_and_created_again_is_noticed_once() -> None:
    running()
    status = Topic()

    def told(topic_id: str, since_ms: int) -> tuple[int, int]:
        status.status(TopicStatus(C, "lines", 0, since_ms, topic_id))
        project("status", status, "id-2")
        return ActiveTopic.objects.get().replaced_ms, Event.objects.filter(type="warning").count()

    assert told("", 1) == (0, 0)
    assert told("aa", 2) == (0, 0), "an older version did not tell it"
    assert told("aa", 3) == (0, 0)
    assert told("bb", 4) == (4, 1)
    assert told("bb", 5) == (4, 1)
    assert told("", 6) == (4, 1)
    assert "lines was deleted and created again" in Event.objects.get(type="warning").summary


@pytest.mark.parametrize(("lives_on", "events"), [(False, 1), (True, 0)])
def test_the_timeline_says_that_a_worker_is_gone_but_not_that_it_gave_a_task_away(lives_on: bool, events: int) -> None:
    running(tasks=2)
    status = Topic()
    first, second = Incarnation("first"), Incarnation("second")
    status.status(WorkerRecord(WorkerId("w1"), first if lives_on else second, "enabled", 4, "1", 1))
    for number in range(2):
        placed = replace(task_status("c", number, State.RUNNING), incarnation=first, worker=WorkerId("w1"))
        again = replace(task_status("c", number, State.UNASSIGNED), incarnation=second, attempt=2, why="placed")
        status.status(placed, again)
    project("status", status, "id-2")
    told = list(Event.objects.filter(type="warning").values_list("summary", flat=True))
    assert len(told) == events
    if told:
        assert told[0] == "w1 is gone or was started again: 2 tasks of it start again from the committed offsets"
