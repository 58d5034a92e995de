"""Writes the configurations of tasks as rows.

A commit record puts many task records into effect at once, and nobody else can write to SQLite while a transaction
lasts. So a long set is written as it arrives, in the transactions that also read it: into a column that nothing shows.
The commit record then only moves that column. A short set, as nearly all are, is written with its commit record.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from django.db.models import F

from ringfence.encryption import encrypt_text
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.projection.models import Task, pack
from ringfence.projection.upserts import upsert

SHORT: Final = 100
"""A set of at most this many tasks is written at once."""
_NONE: Final = "{}"
"""The configuration of a row that has none yet."""


def write(state: ClusterState, replaced: Iterable[str], arrived: Mapping[TaskId, Mapping[str, str]]) -> None:
    """Write what has changed. replaced: the connectors whose tasks may be other ones than before; arrived: the task
    records that wait for their commit record, or have met it. Inside the transaction.
    """
    connectors = [state.connector(ConnectorName(name)) for name in replaced]
    long = {each.name: each for each in connectors if _count(each) > SHORT}
    short = [each for each in connectors if each.name not in long]
    short_names = {each.name for each in short}
    _write_arrived({task: config for task, config in arrived.items() if task.connector not in short_names})
    _write_short(short)
    for each in long.values():
        _move_long(each)


def _count(state: ConnectorState) -> int:
    return 0 if state.config is None or state.commit is None else state.commit.tasks


def _pack(task: TaskId, config: Mapping[str, str]) -> str:
    return encrypt_text(pack(dict(config)), f"task {task}")


def _write_arrived(arrived: Mapping[TaskId, Mapping[str, str]]) -> None:
    rows = [Task(connector=t.connector, number=t.task, next_config=_pack(t, config)) for t, config in arrived.items()]
    upsert(rows, ("next_config",), ("connector", "number"))


def _write_short(states: Iterable[ConnectorState]) -> None:
    states = list(states)
    rows = Task.objects.filter(connector__in=[state.name for state in states])
    rows.exclude(known=False, next_config="").update(known=False, next_config="")
    _put([_row(state, number) for state in states for number in range(_count(state))])


def _put(rows: Sequence[Task]) -> None:
    upsert(rows, ("known", "config"), ("connector", "number"))


def _row(state: ConnectorState, number: int) -> Task:
    task = state.tasks.get(number)
    config = _pack(TaskId(state.name, number), task.config if task else {})
    return Task(connector=state.name, number=number, known=True, config=config)


def _move_long(state: ConnectorState) -> None:
    count, rows = _count(state), Task.objects.filter(connector=state.name)
    rows.filter(number__gte=count).update(known=False, next_config="")
    rows.filter(number__lt=count).exclude(next_config="").update(config=F("next_config"), next_config="")
    rows.filter(number__lt=count, known=False).update(known=True)
    # Of a topic that was compacted, the connector's record may come behind the commit record.
    numbers = set(rows.exclude(config=_NONE).values_list("number", flat=True))
    _put([_row(state, number) for number in range(count) if number not in numbers])
