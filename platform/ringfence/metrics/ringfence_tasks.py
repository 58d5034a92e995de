"""The metrics of tasks that only Ringfence has."""

from ringfence.metrics.connect_tasks import Value
from ringfence.metrics.text import Family, Kind

TASKS: list[tuple[Family, Value]] = []


def _add(name: str, kind: Kind, meaning: str, bad: str, value: Value) -> None:
    TASKS.append((Family(name, kind, meaning, bad), value))


_C, _G = Kind.COUNTER, Kind.GAUGE
_OURS = "ringfence_task_"

_add(
    _OURS + "seconds_since_last_poll",
    _G,
    "Seconds since the source last had records; missing before the first ones.",
    "it exceeds the longest silence that you expect of the source",
    lambda v: v.since(v.task.last_poll_ms),
)
_add(
    _OURS + "seconds_since_last_commit",
    _G,
    "Seconds since the last commit; missing before the first one.",
    "it grows while seconds_since_last_poll does not",
    lambda v: v.since(v.task.last_commit_ms),
)
_add(
    _OURS + "open_transaction_age_seconds",
    _G,
    "How long the open transaction has been open, 0 where none is.",
    "it exceeds the commit interval: readers of its topics wait behind it",
    lambda v: v.open_age,
)
_add(
    _OURS + "committed_transactions_total",
    _C,
    "Transactions that the task has committed.",
    "it does not grow while records are polled",
    lambda v: v.total("transactions"),
)
_add(
    _OURS + "aborted_transactions_total",
    _C,
    "Transactions that the task has aborted. Nothing is lost by it.",
    "it grows steadily: work is done twice",
    lambda v: v.total("aborted"),
)
_add(
    _OURS + "producers_renewed_total",
    _C,
    "Producers that gave way to a new one of the same task: after each abort, and after each commit that is not shown "
    "to have been sent once.",
    "it grows with every commit: the Kafka client has changed the words of its log, so nothing is shown",
    lambda v: v.total("producers_renewed"),
)
_add(
    _OURS + "attempt",
    _G,
    "The number of the task's attempt in its generation.",
    "it grows by itself: its worker or its process dies",
    lambda v: v.task.attempt,
)
_add(
    _OURS + "auto_restarts",
    _G,
    "Automatic restarts in a row that led to this attempt.",
    "it grows: the task fails again and again",
    lambda v: v.task.restarts,
)
_add(
    _OURS + "auto_restarts_total",
    _C,
    "All automatic restarts of the task that were seen.",
    "it grows",
    lambda v: v.task.auto_restarts,
)
_add(
    _OURS + "next_restart_timestamp_seconds",
    _G,
    "When the failed task is restarted by itself, seconds since the epoch; 0 where no restart is due.",
    "it is 0 while the task is failed: it needs your attention",
    lambda v: v.task.next_restart_ms / 1000,
)
