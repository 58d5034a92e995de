"""The totals of a connector: each committed record once, whatever dies, is stopped, or is said twice and late."""

import time

from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, TargetStateRecord
from ringfence.fencing.topics.status import State, StatusTombstone
from ringfence.projection import record_totals
from ringfence.projection.config_rows import prune
from ringfence.projection.health import refresh
from ringfence.projection.models import Connector, Minute, RecordTotals, Task, Tombstone
from ringfence.projection.projector import Projection
from ringfence.projection.record_totals import find_reported
from ringfence.projection.task_minutes import EVERYTHING, minute_of
from tests.support.projections import C, project, running
from tests.support.topics import Topic, connector, connector_status, generation


def counts(attempt: int, records: int, skipped: int = 0, dead_letters: int = 0, task: int = 0) -> AttemptCounts:
    return AttemptCounts(task, 3, attempt, RecordCounts(records, skipped, dead_letters))


def report(attempt: int, committed: list[int], **fields: object) -> dict[str, object]:
    who = {"type": "progress", "connector": "c", "task": 0, "generation": 3, "attempt": attempt}
    return {**who, "committed": committed, **fields}


def total() -> tuple[int, int, int]:
    one = Connector.objects.get()
    return one.records_total, one.skipped_total, one.dead_letters_total


def test_what_was_committed_after_the_last_report_counts() -> None:
    """An attempt that is killed reports no more; the offsets of its last transaction tell what it did."""
    running(1)
    events, offsets = Topic(), Topic()
    events.event(**report(1, [50, 0, 0]))
    project("events", events)
    offsets.offset("c", {"file": "x"}, {"at": 90}, counts(1, 90))
    project("offsets", offsets)
    assert total() == (90, 0, 0)
    events.event(**report(2, [10, 0, 0]))
    offsets.offset("c", {"file": "x"}, {"at": 100}, counts(2, 10))
    project("events", events)
    project("offsets", offsets)
    assert total() == (100, 0, 0)


def test_topics_read_in_any_order_count_each_record_once() -> None:
    running(1)
    events, offsets = Topic(), Topic()
    events.event(**report(2, [10, 0, 0]))
    project("events", events)
    offsets.offset("c", {"file": "x"}, {"at": 90}, counts(1, 90, 2, 3))
    offsets.offset("c", {"file": "x"}, {"at": 100}, counts(2, 10))
    project("offsets", offsets)
    assert total() == (100, 2, 3)
    events.event(**report(1, [80, 2, 3]))
    project("events", events)
    assert total() == (100, 2, 3)
    assert sum(Minute.objects.filter(connector="c").values_list("records", flat=True)) == 100
    assert sum(Minute.objects.filter(connector=EVERYTHING).values_list("records", flat=True)) == 100


def test_late_reports_of_a_deleted_connector_do_not_count_for_another_of_its_name() -> None:
    config, events, offsets = Topic(), Topic(), Topic()
    status = Topic()
    config.config(connector("c"), *generation("c", 1, 1))
    project("config", config)
    status.status(connector_status("c", State.RUNNING))
    project("status", status)
    offsets.offset("c", {"file": "x"}, {"at": 80}, counts(1, 80))
    project("offsets", offsets)
    assert total() == (80, 0, 0)
    config.config(CommitRecord(C, 0), ConnectorRecord(C, None), TargetStateRecord(C, None))
    project("config", config)
    offsets.offset("c", {"file": "x"}, {"at": 90}, counts(1, 90))
    project("offsets", offsets)
    assert not RecordTotals.objects.exists()
    assert total() == (0, 0, 0), "although the status topic still has it"
    first = len(config.records)
    config.config(connector("c"), *generation("c", 1, first + 1))
    project("config", config)
    events.event(**report(1, [95, 0, 0]))
    project("events", events)
    assert total() == (0, 0, 0)
    told = AttemptCounts(0, Connector.objects.get().generation, 1, RecordCounts(7, 0, 0))
    offsets.offset("c", {"file": "x"}, {"at": 97}, told)
    project("offsets", offsets)
    assert total() == (7, 0, 0)
    prune(int(time.time() * 1000))
    assert not Tombstone.objects.exists(), "1970 is long ago"


def test_a_deletion_that_is_read_twice_empties_the_totals_once() -> None:
    """As one behind an open transaction: shown at first, and applied when that transaction has ended."""
    config, offsets = Topic(), Topic()
    config.config(connector("c"), *generation("c", 1, 1))
    project("config", config)
    before = config.end
    config.config(CommitRecord(C, 0), ConnectorRecord(C, None), TargetStateRecord(C, None))
    config.config(connector("c"), *generation("c", 1, len(config.records) + 1))
    projection = Projection("config", "config-topic", "id-1")
    projection.apply(config.records[: before[0]], before)
    projection.show(config.records[before[0] :], before)
    again = AttemptCounts(0, Connector.objects.get().generation, 1, RecordCounts(7, 0, 0))
    offsets.offset("c", {"file": "x"}, {"at": 97}, again)
    project("offsets", offsets)
    projection.apply(config.records[before[0] :], config.end)
    assert total() == (7, 0, 0)


def aborted() -> int:
    return Connector.objects.get().aborted_records_total


def test_what_a_killed_task_had_open_counts_as_aborted_once_the_next_has_committed() -> None:
    running(1)
    events, offsets = Topic(), Topic()
    events.event(**report(1, [50, 2, 1], records=90, open_records=34, aborted_records=5, producer_id=7))
    project("events", events)
    offsets.offset("c", {"file": "x"}, {"at": 60}, counts(1, 60, 2, 1))  # committed after its last report
    project("offsets", offsets)
    assert aborted() == 5, "it still runs: what is open may be committed"
    events.event(**report(2, [0, 0, 0], records=3, open_records=3, producer_id=7))
    project("events", events)
    assert aborted() == 5, "what the first one has committed may still come"
    offsets.offset("c", {"file": "x"}, {"at": 63}, counts(2, 3))
    project("offsets", offsets)
    assert aborted() == 5 + (90 - 60 - 1 - 5)
    events.event(**report(2, [3, 0, 0], records=3, producer_id=7))
    project("events", events)
    assert aborted() == 29, "and once"
    offsets.offset("c", {"file": "y"}, {"at": 70}, counts(1, 70, 2, 1))
    project("offsets", offsets)
    assert (aborted(), total()) == (19, (73, 2, 1)), "a commit that was read late was none of them"


def test_nothing_counts_as_aborted_of_tasks_without_transactions_or_counts_in_them() -> None:
    running(1)
    events, offsets = Topic(), Topic()
    events.event(**report(1, [50, 0, 0], records=90, producer_id=-1))  # at least once: no producer id, no transaction
    events.event(**report(2, [10, 0, 0], records=20, producer_id=7))  # of a group: its commits are in no source offset
    events.event(**report(3, [5, 0, 0], records=5, producer_id=7))
    project("events", events)
    assert aborted() == 0
    assert find_reported(["c"]) == {"c"}
    offsets.offset("c", {"file": "x"}, {"at": 9}, counts(2, 10))
    offsets.offset("c", {"file": "x"}, {"at": 9}, counts(3, 5))
    project("offsets", offsets)
    assert (aborted(), find_reported(["c"])) == (10, set())
    offsets.offset("c", {"file": "x"}, None)
    project("offsets", offsets)
    assert find_reported(["c"]) == set(), "a reset of its offsets does not make the count a report"


def test_a_stop_keeps_the_totals_and_another_generation_goes_on() -> None:
    running(2)
    offsets, status = Topic(), Topic()
    offsets.offset("c", {"n": 0}, {"at": 1}, counts(1, 30))
    offsets.offset("c", {"n": 1}, {"at": 1}, counts(1, 20, task=1))
    project("offsets", offsets)
    status.status(
        connector_status("c", State.STOPPED), StatusTombstone("status-task-c-0"), StatusTombstone("status-task-c-1")
    )
    Task.objects.all().delete()
    project("status", status)
    assert total() == (50, 0, 0)
    offsets.offset("c", {"n": 0}, {"at": 2}, AttemptCounts(0, 9, 1, RecordCounts(49)))
    project("offsets", offsets)
    assert total() == (99, 0, 0)
    assert Connector.objects.get().last_commit_ms == 1_000


def test_nonsense_in_a_header_does_no_harm() -> None:
    running(1)
    offsets = Topic()
    for value in (
        b"",
        b"[]",
        b"{",
        b'{"task":0}',
        b'{"task":0,"generation":1,"attempt":1,"records":"x","skipped":0}',
        None,
    ):
        offsets.raw(b'["c",{"n":0}]', b'{"at":1}', headers=[("ringfence.counts", value), ("other", b"1")])
    project("offsets", offsets)
    assert total() == (0, 0, 0)


def test_records_that_were_skipped_degrade_a_connector_for_an_hour() -> None:
    running(1)
    offsets = Topic()
    now = int(time.time() * 1000)
    offsets.offset("c", {"n": 0}, {"at": 1}, counts(1, 5, 1, 2), at=now)
    project("offsets", offsets)
    one = Connector.objects.get()
    assert (one.health, one.recent_skipped, one.recent_dead_letters) == ("DEGRADED", 1, 2)
    assert record_totals.update_counts(now) == set()
    Minute.objects.filter(connector="c", task=0, dead_letters=2).update(minute=minute_of(now) - 60)
    assert record_totals.update_counts(now) == {"c"}
    one.refresh_from_db()
    assert (one.health, one.bad_since_ms, total()) == ("HEALTHY", 0, (5, 1, 2))


def test_the_totals_go_with_the_connector() -> None:
    running(1)
    offsets = Topic()
    offsets.offset("c", {"n": 0}, {"at": 1}, counts(1, 5))
    project("offsets", offsets)
    Connector.objects.update(known=False, state="")
    refresh({"c"})
    assert not RecordTotals.objects.exists()
