"""`GET /connectors?expand=…`: status and info of every connector in one answer."""

from collections.abc import Iterable

from ringfence.access.principal import Principal
from ringfence.api.connector_reads import Json, TaskRow, info, status
from ringfence.http.masking import Masker
from ringfence.projection.models import Connector, Task


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
