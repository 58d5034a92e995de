"""What one tenant makes much of keeps nobody from the database for long: a transaction costs what it writes."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, PlacementRecord, TaskRecord
from ringfence.fencing.topics.status import State, StatusRecord, StatusTombstone
from ringfence.http.masking import remember
from ringfence.projection import config_rows
from ringfence.projection.models import PluginSecrets, Task
from ringfence.projection.projector import HELD_SECONDS, Pace, Projection
from tests.support.topics import Topic, connector, connector_status, generation, task_status

MANY = 3_000


def test_nothing_is_read_from_the_config_topic_within_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests wait while it lasts."""
    within: list[bool] = []
    fold = config_rows.fold

    def noting(*arguments: Any) -> config_rows.ConfigChange:
        within.append(connection.in_atomic_block)
        return fold(*arguments)

    monkeypatch.setattr(config_rows, "fold", noting)
    config = Reader("config")
    config.topic.config(connector("c"), *generation("c", 2, 1))
    config.write()
    assert within
    assert not any(within)


class Reader:
    """A projector of one topic."""

    def __init__(self, role: str) -> None:
        self.topic, self.projection = Topic(), Projection(role, f"{role}-topic", f"id-{role}")
        self.queries: list[str] = []
        """Of the last transaction."""
        self._written = 0

    def write(self) -> None:
        """Write what was added, in one transaction."""
        with CaptureQueriesContext(connection) as queries:
            self.projection.apply(self.topic.records[self._written :], self.topic.end)
        self._written = len(self.topic.records)
        self.queries = [query["sql"] for query in queries]


def with_tasks(count: int) -> tuple[Reader, Reader]:
    """The readers of the config and the status topic, with a connector c and statuses of all of its tasks."""
    config, status = Reader("config"), Reader("status")
    config.topic.config(connector("c"), *generation("c", count, 1))
    config.write()
    status.topic.status(connector_status("c", State.RUNNING))
    status.topic.status(*(task_status("c", number, State.UNASSIGNED) for number in range(count)))
    status.write()
    return config, status


def change(status: Reader, records: Sequence[StatusRecord]) -> None:
    status.topic.status(*records)
    status.write()


def test_a_transaction_that_took_long_makes_the_next_one_smaller() -> None:
    pace = Pace(200)
    pace.note(200, HELD_SECONDS * 2)
    assert pace.limit == 100
    pace.note(100, HELD_SECONDS * 50)
    assert pace.limit == 15, "smaller ones take hardly less"
    pace.note(3, 0.001)
    assert pace.limit == 15, "which says nothing about fifteen"
    for _ in range(9):
        pace.note(pace.limit, 0.001)
    assert pace.limit == 200


def test_a_slice_of_statuses_reads_the_rows_of_its_tasks_only() -> None:
    _, status = with_tasks(MANY)
    change(status, [task_status("c", number, State.RUNNING) for number in range(50)])
    minutes = [sql for sql in status.queries if "FROM mirror_minute" in sql]
    tasks = [sql for sql in status.queries if sql.startswith("SELECT") and "FROM mirror_task" in sql]
    assert minutes
    assert tasks
    assert all(" task IN" in sql for sql in minutes)
    assert all("GROUP BY" in sql or " number IN" in sql for sql in tasks)


def test_tombstones_of_many_tasks_are_few_statements() -> None:
    _, status = with_tasks(MANY)
    change(status, [StatusTombstone(f"status-task-c-{number}") for number in range(200)])
    assert len(status.queries) < 15
    assert Task.objects.filter(connector="c", state="").count() == 200


def test_what_removes_the_rest_of_a_deleted_connector_changes_no_task() -> None:
    name = ConnectorName("c")
    config, status = with_tasks(MANY)
    config.topic.config(ConnectorRecord(name, None), CommitRecord(name, 0))
    config.write()
    assert not Task.objects.filter(known=True).exists()
    for number in range(100):
        task = TaskId(name, number)
        config.topic.config(TaskRecord(task, None), PlacementRecord(task, None))
    config.write()
    assert not [sql for sql in config.queries if sql.startswith("UPDATE") and "_task" in sql.split("SET")[0]]
    change(status, [StatusTombstone(f"status-task-c-{number}") for number in range(MANY)])
    assert not Task.objects.exists()


def test_a_validation_that_tells_nothing_new_writes_nothing() -> None:
    """Each one tells which settings are secret."""
    remember("Some", ["password", "key"])
    with CaptureQueriesContext(connection) as queries:
        remember("Some", ["key", "password"])
    assert [query["sql"][:6] for query in queries] == ["SELECT"]
    remember("Some", ["key"])
    assert PluginSecrets.objects.get(class_name="Some").names == '["key"]'
