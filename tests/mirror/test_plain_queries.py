"""Statements in SQL mean what Django's do, on the database of the tests."""

from collections.abc import Iterator

import pytest

from ringfence.plain_queries import among, delete, insert, read, select, update, update_each, upsert
from ringfence.projection.models import Connector, Event, RecordTotals, Startups, Task
from tests.support import database


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    database.migrate()
    database.empty()
    yield
    database.empty()


def test_a_row_is_read_as_django_reads_it() -> None:
    Task(connector="a", number=1, known=True, config='{"x": "\u00e9 %s"}', rate=1.5, retry="{}").save()
    Task(connector="a", number=2, known=False).save()
    rows = sorted(read(Task, among("connector", ["a", "b"]), "a", "b"), key=lambda row: row.number)
    for row, expected in zip(rows, Task.objects.order_by("number"), strict=True):
        assert {**vars(row), "_state": 0} == {**vars(expected), "_state": 0}
        assert type(row.known) is bool
        assert not row._state.adding


def test_an_upsert_inserts_a_row_and_of_one_that_is_there_updates_what_is_named() -> None:
    upsert([Connector(name="a", state="RUNNING", worker="w1", known=True)], ("state",), ("name",))
    upsert([Connector(name=name, state="FAILED", worker="w2") for name in "ab"], ("state",), ("name",))
    rows = Connector.objects.order_by("name").values_list("name", "state", "worker", "known", "health")
    assert list(rows) == [("a", "FAILED", "w1", True, "UNKNOWN"), ("b", "FAILED", "w2", False, "UNKNOWN")]


def test_insert_numbers_rows_and_keeps_null() -> None:
    insert(Event(type="task", time_ms=number, task=None if number else 3) for number in range(2))
    assert list(Event.objects.order_by("id").values_list("time_ms", "task")) == [(0, 3), (1, None)]
    insert([])


def test_updates_and_deletions_say_how_many_rows_they_met() -> None:
    insert([Startups(worker="a", task_attempts=1), Startups(worker="b", task_attempts=2)])
    assert update(Startups, "task_attempts = task_attempts + %s", "worker = %s", 5, "a") == 1
    assert update(Startups, "task_attempts = 0", "worker = %s", "nobody") == 0
    update_each(Startups, "task_failures = %s", "worker = %s", [(7, "a"), (8, "b")])
    assert select(Startups, "task_attempts, task_failures", "worker = %s OR worker = %s ORDER BY worker", "a", "b") == [
        (6, 7),
        (2, 8),
    ]
    assert delete(Startups, among("worker", {"a", "b"}), "a", "b") == 2


def test_no_row_is_among_no_values() -> None:
    insert([Startups(worker="a")])
    assert read(Startups, f"{among('worker', [])} AND task_attempts = %s", 0) == []
    assert delete(Startups, among("worker", ())) == 0


def test_values_are_no_part_of_a_statement() -> None:
    name = "x'); DROP TABLE mirror_task; --%s"
    upsert([RecordTotals(connector=name, task=0, records=1)], ("records",), ("connector", "task"))
    assert [row.connector for row in read(RecordTotals, "connector = %s", name)] == [name]
