"""A long set of tasks is written as it arrives, so no transaction keeps other writers from the database for long."""

from collections.abc import Sequence

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TargetStateRecord,
    TaskRecord,
)
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.projection.config_rows import SHORT
from ringfence.projection.models import Connector, Task
from ringfence.projection.projector import Projection
from tests.support.topics import Topic, connector

C = ConnectorName("c")
MANY = 12 * SHORT


class Reader:
    """A projector that reads a topic in batches."""

    def __init__(self) -> None:
        self.topic = Topic()
        self.projection = Projection("config", "config-topic", "id-1")
        self.statements = 0
        """Of the last batch."""

    def write(self, *records: ConfigRecord) -> None:
        """Write and apply them in one batch."""
        start = len(self.topic.records)
        self.topic.config(*records)
        with CaptureQueriesContext(connection) as queries:
            self.projection.apply(self.topic.records[start:], self.topic.end)
        self.statements = len(queries)

    def restart(self) -> None:
        """Another one continues at the stored position."""
        self.projection = Projection("config", "config-topic", "id-1")
        self.projection.apply(self.topic.records, self.topic.end)


def task_set(count: int, mark: str) -> list[ConfigRecord]:
    return [TaskRecord(TaskId(C, n), {"task.id": str(n), "mark": mark}) for n in range(count)]


def slices(records: Sequence[ConfigRecord], size: int = SHORT) -> list[Sequence[ConfigRecord]]:
    return [records[n : n + size] for n in range(0, len(records), size)]


def shown() -> list[str]:
    """The marks of the connector's tasks, in order."""
    return [task.settings["mark"] for task in Task.objects.filter(connector="c", known=True).order_by("number")]


@pytest.fixture
def reader() -> Reader:
    reader = Reader()
    reader.write(connector("c"))
    return reader


def test_nothing_shows_before_the_commit_record_and_all_behind_it(reader: Reader) -> None:
    most = 0
    for part in slices(task_set(MANY, "a")):
        reader.write(*part)
        most = max(most, reader.statements)
        assert shown() == []
    reader.write(CommitRecord(C, MANY))
    assert reader.statements < most + 25, "the commit record's own transaction must not write the whole set"
    assert shown() == ["a"] * MANY
    assert Connector.objects.get().task_count == MANY


def test_the_old_tasks_show_until_the_new_ones_are_committed(reader: Reader) -> None:
    reader.write(*task_set(MANY, "a"), CommitRecord(C, MANY))
    for part in slices(task_set(MANY - 50, "b")):
        reader.write(*part)
        assert shown() == ["a"] * MANY
    reader.restart()
    reader.write(CommitRecord(C, MANY - 50))
    assert shown() == ["b"] * (MANY - 50)
    reader.write(*task_set(3, "c"), CommitRecord(C, 3))
    assert shown() == ["c"] * 3
    assert Task.objects.count() == 3


def test_an_interrupted_set_leaves_nothing(reader: Reader) -> None:
    reader.write(*task_set(MANY, "a"))
    reader.write(*task_set(MANY // 2, "b"))
    reader.write(CommitRecord(C, MANY // 2))
    assert shown() == ["b"] * (MANY // 2)
    assert Task.objects.count() == MANY // 2
    reader.write(*task_set(MANY, "c"))
    reader.write(TargetStateRecord(C, TargetState.STOPPED), CommitRecord(C, 0))
    assert shown() == []
    assert Task.objects.count() == 0
    reader.write(*task_set(MANY, "d"))
    reader.write(CommitRecord(C, 0), ConnectorRecord(C, None))
    assert not Task.objects.exists()
    assert not Connector.objects.filter(known=True).exists()


def test_a_placement_writes_no_task_again(reader: Reader) -> None:
    reader.write(*task_set(MANY, "a"), CommitRecord(C, MANY))
    placed = [PlacementRecord(TaskId(C, n), WorkerId("w"), Incarnation("i"), 1, Generation(MANY + 1)) for n in range(9)]
    reader.write(*placed)
    assert reader.statements < 15
    assert shown() == ["a"] * MANY


def test_a_set_whose_connector_comes_last_in_a_compacted_topic_shows() -> None:
    reader = Reader()
    reader.write(*task_set(MANY, "a"))
    reader.write(CommitRecord(C, MANY))
    reader.write(connector("c"))
    assert shown() == ["a"] * MANY


def test_a_short_set_over_two_batches_shows(reader: Reader) -> None:
    reader.write(*task_set(5, "a")[:2])
    reader.write(*task_set(5, "a")[2:], CommitRecord(C, 5))
    assert shown() == ["a"] * 5
    reader.write(TaskRecord(TaskId(C, 1), {"task.id": "1", "mark": "sealed"}, of=3))
    assert shown() == ["a", "sealed", "a", "a", "a"]
    assert not Task.objects.exclude(next_config="").exists()
