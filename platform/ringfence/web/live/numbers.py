"""The numbers on open connector pages, read for all of these pages at once.

The event contains them, each with the id of the element that shows it (`connector_head.html`, `tasks.html`).
"""

from collections.abc import Collection

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import close_old_connections

from ringfence.projection import record_totals
from ringfence.projection.known_health import find_data_age, known_health
from ringfence.projection.models import Connector, RecordTotals, Task
from ringfence.web.connector.header import now_ms
from ringfence.web.connector.transaction_lanes import open_now
from ringfence.web.lists.connector_rows import rate_of
from ringfence.web.templatetags.ringfence import ago, num, open_transactions, rate

Numbers = dict[str, str]
"""HTML by element id."""

_OF_TASKS = (
    "connector", "number", "state", "rate", "reported_ms", "generation", "attempt", "live_generation", "live_attempt",
    "open_since_ms", "data_as_of_ms",
)  # fmt: skip


@sync_to_async
def read_numbers(names: Collection[str], with_tasks: Collection[str]) -> dict[str, Numbers]:
    """Read the numbers, by connector. with_tasks: connectors that also need each task's. Empty while the
    database is away.
    """
    try:
        return _read(names, with_tasks)
    except DatabaseError:
        return {}
    finally:
        close_old_connections()  # this thread serves no request that would do it


def _read(names: Collection[str], with_tasks: Collection[str]) -> dict[str, Numbers]:
    now, stale = now_ms(), known_health().vitals.stale
    tasks: dict[str, list[Task]] = {}
    for task in Task.objects.filter(connector__in=names, known=True).order_by("number").only(*_OF_TASKS):
        tasks.setdefault(task.connector, []).append(task)
    rows = Connector.objects.filter(name__in=names, known=True).values_list("name", "records_total", "last_commit_ms")
    totals = record_totals.of_tasks(with_tasks) if with_tasks else {}
    numbers = {}
    for name, records, last_commit_ms in rows:
        of_name = tasks.get(name, [])
        numbers[name] = {
            "rate-now": rate(None if stale else rate_of(of_name, now)),
            "records-in-all": f"{num(records)} in all",
            "last-commit": ago(last_commit_ms),
            "data-as-of": ago(find_data_age(of_name)),
            "open-transactions": open_transactions(sum(open_now(task) for task in of_name)),
        }
        if name in with_tasks:
            for task in of_name:
                numbers[name] |= _of_task(task, totals.get((name, task.number)) or RecordTotals(), now)
    return numbers


def _of_task(task: Task, totals: RecordTotals, now: int) -> Numbers:
    return {
        f"task-{task.number}-rate": rate(rate_of([task], now)),
        f"task-{task.number}-records": num(totals.records),
        f"task-{task.number}-last-commit": ago(totals.last_commit_ms),
    }
