"""The Transactions tab: a lane per task, drawn on the server from the task's reports only.

A task reports at most once a second. A transaction that was open in a report is drawn from beginning to end; shorter
ones that ended between two reports share one bar, and the table gives their number. The time from an attempt's last
report to the next attempt's start is a bar of its own: no report covers what was open then.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator

from ringfence.connectors.plural_forms import write_count
from ringfence.projection.models import Connector, Task
from ringfence.projection.progress_reports import uses_transactions_v2
from ringfence.web.state_badges import Badge, Severity, look_of_task

SPAN_MS = 120_000
WIDTH, HEIGHT = 1200, 48
PAGE_SIZE = 15
MOST_TRANSACTIONS = 10
_NARROWEST, _LOWEST = 3.0, 3.0

_OPEN = Badge("Open", "circle-dot", Severity.MOTION, "Its records are not visible to read_committed readers yet.")
_NONE = Badge("None open", "circle-check", Severity.REST, "All that it has sent is committed or aborted.")
_ENDED = Badge(
    "Not running", "circle-stop", Severity.REST, "The attempt that reported last has ended, or reports nothing."
)


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """Transactions that ended between two reports of a task. Without any, the time between two of its attempts."""

    began_ms: int
    ended_ms: int
    committed: int
    aborted: int
    records: int

    @property
    def took_ms(self) -> int:
        return self.ended_ms - self.began_ms

    @property
    def is_between_attempts(self) -> bool:
        return not self.committed and not self.aborted


@dataclass(frozen=True, slots=True)
class Lane:
    """A task's lane: SVG path data in a box of WIDTH x HEIGHT, and the same as numbers."""

    task: Task
    look: Badge
    state: Badge
    transactional_id: str
    transactions_v2: bool | None
    is_open: bool
    committed_path: str
    aborted_path: str
    between_path: str
    open_path: str
    rows: Sequence[EndedTransaction]
    committed_count: int
    aborted_count: int
    records: int
    interruptions: int

    @property
    def is_live(self) -> bool:
        """Return whether its attempt is running, so that the lane will change soon."""
        return self.is_open or self.task.state == "RUNNING"

    @property
    def summary(self) -> str:
        text = f"{self.committed_count} committed, {self.aborted_count} aborted, {self.records} records"
        if self.interruptions:
            text += f", {write_count(self.interruptions, 'interruption')}"
        return f"{text}; one is open with {self.task.open_records} records" if self.is_open else text


def list_ended(task: Task, since_ms: int) -> list[EndedTransaction]:
    """Return the contents of the task's last reports, the oldest first."""
    transactions = (EndedTransaction(*item[2:7]) for item in json.loads(task.recent) if len(item) >= 7)
    return [each for each in transactions if each.ended_ms > since_ms]


def open_now(task: Task) -> bool:
    """Return whether the placed attempt has a transaction open, by its own last report."""
    same = (task.live_generation, task.live_attempt) == (task.generation, task.attempt)
    return same and task.state in ("RUNNING", "PAUSED") and task.open_since_ms > 0


def _bar(began_ms: int, ended_ms: int, height: float, start_ms: int) -> str:
    """Return a rectangle as path data. It ends where the transaction ended, and is cut at the left edge."""
    scale = WIDTH / SPAN_MS
    right = min(float(WIDTH), (ended_ms - start_ms) * scale)
    left = max(0.0, min((began_ms - start_ms) * scale, right - _NARROWEST))
    return f"M{left:.0f} {HEIGHT}V{HEIGHT - height:.0f}H{right - 1:.0f}V{HEIGHT}z"


def lanes(tasks: Iterable[Task], now_ms: int) -> list[Lane]:
    """Draw one lane per task, all on the same scale."""
    start_ms = now_ms - SPAN_MS
    of = [(task, list_ended(task, start_ms)) for task in tasks]
    peak = max(
        (
            *(each.records for _, transactions in of for each in transactions),
            *(task.open_records for task, _ in of if open_now(task)),
            1,
        )
    )
    return [_lane(task, transactions, peak, now_ms) for task, transactions in of]


def _lane(task: Task, spans: Sequence[EndedTransaction], peak: int, now_ms: int) -> Lane:
    start_ms = now_ms - SPAN_MS
    transactions = [each for each in spans if not each.is_between_attempts]
    between = [each for each in spans if each.is_between_attempts]
    is_open = open_now(task)

    def draw(bars: Iterable[EndedTransaction]) -> str:
        return "".join(_bar(each.began_ms, each.ended_ms, high(each.records), start_ms) for each in bars)

    def high(records: int) -> float:
        return max(_LOWEST, records / peak * (HEIGHT - 4))

    live = task.state in ("RUNNING", "PAUSED")
    return Lane(
        task=task,
        look=look_of_task(task),
        state=_OPEN if is_open else _NONE if live else _ENDED,
        transactional_id=str(json.loads(task.measures).get("transactional_id") or ""),
        transactions_v2=uses_transactions_v2(task),
        is_open=is_open,
        committed_path=draw(each for each in transactions if not each.aborted),
        aborted_path=draw(each for each in transactions if each.aborted),
        between_path="".join(_bar(each.began_ms, each.ended_ms, HEIGHT, start_ms) for each in between),
        open_path=_bar(task.open_since_ms, now_ms, high(task.open_records), start_ms) if is_open else "",
        rows=transactions[: -MOST_TRANSACTIONS - 1 : -1],
        committed_count=sum(each.committed for each in transactions),
        aborted_count=sum(each.aborted for each in transactions),
        records=sum(each.records for each in transactions),
        interruptions=len(between),
    )


def show_lanes(connector: Connector, page: str, now_ms: int) -> dict[str, Any]:
    """Return a page of lanes, for the template."""
    tasks = Task.objects.filter(connector=connector.name, known=True).order_by("number")
    task_page: Page[Task] = Paginator(tasks, PAGE_SIZE).get_page(page)
    task_lanes = lanes(task_page, now_ms)
    return {
        "page": task_page,
        "lanes": task_lanes,
        "versions": {lane.transactions_v2 for lane in task_lanes} - {None},
        "moving": any(lane.is_live for lane in task_lanes),
        "listed": MOST_TRANSACTIONS,
    }


def list_workers(connector: Connector) -> list[str]:
    """Return the workers that run its tasks."""
    of_tasks = Task.objects.filter(connector=connector.name, known=True).exclude(worker="")
    return sorted(set(of_tasks.values_list("worker", flat=True)))
