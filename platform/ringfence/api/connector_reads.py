"""The API's answers from the database: each body in a constant number of queries, with masked secrets.

`GET /connectors?expand=…` has status and info of every connector in one answer.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ringfence import dispatch
from ringfence.access.principal import Principal, Verb
from ringfence.engine.questions import ReadOffsets
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.leader.fence_targets import may_keep_own_offsets
from ringfence.fencing.offsets.source_offsets import SourceOffset as CommittedOffset
from ringfence.fencing.share.group_moves import merge
from ringfence.http.errors import ConnectError, not_found
from ringfence.http.masking import Masker, hide_all
from ringfence.projection import offset_rows
from ringfence.projection.models import ActiveTopic, ClusterInfo, Connector, Task, find_connector
from ringfence.projection.offset_rows import TooManyOffsets

Json = dict[str, Any]


class TaskRow(NamedTuple):
    """The columns of a task for the status. With thousands of tasks, complete model objects would take
    most of the time.
    """

    connector: str
    number: int
    state: str
    worker: str
    trace: str
    version: str
    why: str


def names(who: Principal) -> list[str]:
    """Return the names of all visible connectors, sorted."""
    return list(Connector.objects.filter(who.query(), known=True).order_by("name").values_list("name", flat=True))


def connector(name: str) -> Connector:
    """Return the connector's row. Raises a 404 in Kafka Connect's words if there is none."""
    row = find_connector(name)
    if row is None:
        raise not_found(f"Connector {name} not found")
    return row


def tasks(name: str) -> list[Task]:
    """Return the newest generation's tasks, by number."""
    return list(Task.objects.filter(connector=name, known=True).order_by("number"))


def info(name: str, config: Mapping[str, str], numbers: Iterable[int], masker: Masker, who: Principal) -> Json:
    """Return `ConnectorInfo`. Without the permission `view-config`, every value is masked."""
    return {
        "name": name,
        "config": masker.mask(config) if who.may(Verb.VIEW_CONFIG, name) else hide_all(config),
        "tasks": [{"connector": name, "task": number} for number in numbers],
        "type": "source",
    }


def info_of(name: str, who: Principal) -> Json:
    row = connector(name)
    return info(name, row.settings, [task.number for task in tasks(name)], Masker([row.class_name]), who)


def status(row: Connector, rows: Sequence[Task | TaskRow], masker: Masker) -> Json:
    """Return `ConnectorStateInfo`; UNASSIGNED until a status was reported, because the connector exists already."""
    if row.unreadable:
        state, trace = "FAILED", row.unreadable
    else:
        state, trace = row.state or "UNASSIGNED", row.trace
    # Read only if there is text that may contain secrets.
    config = row.settings if trace or any(task.trace for task in rows) else {}
    return {
        "name": row.name,
        "connector": _state(state, row.worker, row.version, masker.scrub(trace, config)),
        "tasks": [task_status(task, config, masker) for task in rows if task.state],
        "type": row.type,
    }


def task_status(task: Task | TaskRow, config: Mapping[str, str], masker: Masker) -> Json:
    """Return `TaskState`."""
    trace = masker.scrub(task.trace, config)
    if task.state == "FAILED" and not trace:
        trace = task.why or "No trace was reported."  # clients rely on the trace of a failed task
    return {"id": task.number, **_state(task.state, task.worker, task.version, trace)}


def _state(state: str, worker: str, version: str, trace: str) -> Json:
    body: Json = {"state": state, "worker_id": worker, "version": version or None}
    return {**body, "trace": trace} if trace else body


def status_of(name: str) -> Json:
    row = find_connector(name)
    if row is None:
        raise not_found(f"No status found for connector {name}")
    return status(row, tasks(name), Masker([row.class_name]))


def task_status_of(name: str, number: int) -> Json:
    row = find_connector(name)
    task = Task.objects.filter(connector=name, number=number, known=True).exclude(state="").first()
    if row is None or task is None:
        raise not_found(f"No status found for task {name}-{number}")
    return task_status(task, row.settings, Masker([row.class_name]))


def task_configs(name: str) -> list[Json]:
    """Return the answer of `GET …/tasks`."""
    row = connector(name)
    masker = Masker([row.class_name])
    return [
        {"id": {"connector": name, "task": task.number}, "config": masker.mask(task.settings, row.class_name)}
        for task in tasks(name)
    ]


def topics(name: str) -> list[str]:
    """Return the topics that the connector has written to since its last reset (KIP-558). Raises a 403 if tracking is
    disabled.
    """
    if ClusterInfo.objects.filter(topic_tracking=False).exists():
        raise ConnectError(403, "Topic tracking is disabled.")
    return list(ActiveTopic.objects.filter(connector=name).order_by("topic").values_list("topic", flat=True))


def offsets(name: str) -> Json:
    """Return the answer of `GET …/offsets`. The database follows the workers' topic only; if that may contain copies, a
    worker reads the offsets.
    """
    row = connector(name)
    if may_keep_own_offsets(row.settings):
        return {"offsets": dispatch.ask(ReadOffsets(name, row.settings))}
    try:
        rows = offset_rows.read(name)
    except TooManyOffsets as error:
        raise ConnectError(413, str(error)) from error
    merged_offsets = merge(
        ConnectorName(name), [CommittedOffset(json.loads(part), json.loads(offset), b"") for part, offset in rows]
    )
    return {"offsets": [{"partition": one.partition, "offset": one.offset} for one in merged_offsets]}


def expand(expansions: Iterable[str], who: Principal) -> Json:
    """Return the requested parts of every connector for `GET /connectors?expand=…`, with three queries in total."""
    part_names = set(expansions)
    rows = list(Connector.objects.filter(who.query(), known=True).order_by("name"))
    masker = Masker({row.class_name for row in rows})
    of: dict[str, list[TaskRow]] = {}
    tasks = Task.objects.filter(who.query(field="connector"), known=True).order_by("connector", "number")
    for task in map(TaskRow._make, tasks.values_list(*TaskRow._fields)):
        of.setdefault(task.connector, []).append(task)
    body: Json = {}
    for row in rows:
        parts: Json = {}
        if "status" in part_names:
            parts["status"] = status(row, of.get(row.name, []), masker)
        if "info" in part_names:
            numbers = [task.number for task in of.get(row.name, [])]
            parts["info"] = info(row.name, row.settings, numbers, masker, who)
        body[row.name] = parts
    return body
