"""The metrics of tasks: those that Kafka Connect has, too, by the names of their JMX attributes, and our own."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ringfence.metrics.text import Family, Kind, Sample, labels
from ringfence.projection.models import RecordTotals, Task

FIELDS: Final = (
    "connector", "number", "state", "worker", "generation", "attempt", "restarts", "next_restart_ms", "auto_restarts",
    "live_generation", "live_attempt", "reported_ms", "rate", "bytes", "open_records", "open_since_ms",
    "last_poll_ms", "last_commit_ms", "data_as_of_ms", "measures", "totals",
)  # fmt: skip
_LIVE_MS = 5_000
_WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True)
class TaskMetricsRow:
    """A task at one moment. An outdated report has no rates or distributions."""

    task: Task
    now_ms: int
    measures: Mapping[str, Any]
    totals: Mapping[str, int]
    recorded: RecordTotals

    @classmethod
    def of(cls, task: Task, now_ms: int, recorded: RecordTotals | None) -> "TaskMetricsRow":
        return cls(task, now_ms, json.loads(task.measures), json.loads(task.totals), recorded or RecordTotals())

    @property
    def _age_ms(self) -> int:
        return max(0, self.now_ms - self.task.reported_ms)

    @property
    def own(self) -> bool:
        """Whether the newest report is from the newest attempt."""
        return (self.task.live_generation, self.task.live_attempt) == (self.task.generation, self.task.attempt)

    def total(self, name: str) -> float:
        return self.totals.get(name, 0)

    def rate(self, value: float) -> float:
        return value if self._age_ms < _LIVE_MS and self.task.state == "RUNNING" else 0.0

    def spread(self, name: str, of: str) -> float | None:
        """Return min, max or avg; None if nothing was measured in the last minute."""
        measure = self.measures.get(name, {})
        if not measure.get("count") or self._age_ms >= _WINDOW_MS:
            return None
        return float(measure["sum"] / measure["count"] if of == "avg" else measure[of])

    def ratio(self, state: str, spent: str) -> float | None:
        """Return the share of the attempt's lifetime spent in a state. The time since its last report counts for its
        current state.
        """
        life = self.measures.get("life_ms", 0)
        if not self.own or not life:
            return None
        since = self._age_ms
        return float((self.measures.get(spent, 0) + (since if self.task.state == state else 0)) / (life + since))

    def since(self, time_ms: int) -> float | None:
        return max(0, self.now_ms - time_ms) / 1000 if time_ms else None

    @property
    def open_age(self) -> float:
        """Return the age of the open transaction in seconds, 0 if none is open or its task is not running."""
        up = self.own and self.task.state in ("RUNNING", "PAUSED")
        return (self.since(self.task.open_since_ms) or 0.0) if up else 0.0


Value = Callable[[TaskMetricsRow], float | None]

TASKS: list[tuple[Family, Value]] = []


def _add(name: str, kind: Kind, meaning: str, bad: str, value: Value) -> None:
    TASKS.append((Family(name, kind, meaning, bad), value))


_C, _G = Kind.COUNTER, Kind.GAUGE
_SOURCE, _TASK = "kafka_connect_source_task_metrics_", "kafka_connect_connector_task_metrics_"
_ERROR = "kafka_connect_task_error_metrics_"
_MINUTE = "in the last minute"

_add(
    _SOURCE + "source_record_poll_total",
    _C,
    "Records that the task has read from its source, before transforms.",
    "it does not grow although the source has new data",
    lambda v: v.total("polled"),
)
_add(
    _SOURCE + "source_record_poll_rate",
    _G,
    "Records per second that the task reads from its source.",
    "it is 0 although the source has new data",
    lambda v: v.rate(v.measures.get("poll_rate", 0)),
)
_add(
    _SOURCE + "source_record_write_total",
    _C,
    "Records that the task has committed, after transforms, over all of its attempts.",
    "it does not grow while source_record_poll_total does",
    lambda v: v.recorded.records,
)
_add(
    _SOURCE + "source_record_write_rate",
    _G,
    "Records per second that the task hands to Kafka.",
    "it is lower than what the source makes",
    lambda v: v.rate(v.task.rate),
)
_add(
    _SOURCE + "poll_batch_max_time_ms",
    _G,
    f"The longest that the source took for a batch {_MINUTE}, milliseconds.",
    "it grows: the source gets slower",
    lambda v: v.spread("poll_ms", "max"),
)
_add(
    _SOURCE + "poll_batch_avg_time_ms",
    _G,
    f"How long the source took for a batch on average {_MINUTE}, milliseconds.",
    "it grows: the source gets slower",
    lambda v: v.spread("poll_ms", "avg"),
)
_add(
    _SOURCE + "source_record_active_count",
    _G,
    "Records that were produced and are not committed yet.",
    "it grows and never falls to 0",
    lambda v: v.task.open_records if v.own else 0,
)
_add(
    _SOURCE + "source_record_active_count_max",
    _G,
    f"The most such records {_MINUTE}.",
    "it comes near what the producer can buffer",
    lambda v: v.spread("active_records", "max"),
)
_add(
    _SOURCE + "source_record_active_count_avg",
    _G,
    f"Such records on average {_MINUTE}.",
    "it grows: commits do not keep up",
    lambda v: v.spread("active_records", "avg"),
)
_add(
    _SOURCE + "transaction_size_min",
    _G,
    f"Records in the smallest transaction that was committed {_MINUTE}.",
    "",
    lambda v: v.spread("transaction_records", "min"),
)
_add(
    _SOURCE + "transaction_size_max",
    _G,
    f"Records in the largest transaction that was committed {_MINUTE}.",
    "it is so large that readers wait long for its commit",
    lambda v: v.spread("transaction_records", "max"),
)
_add(
    _SOURCE + "transaction_size_avg",
    _G,
    f"Records in a committed transaction on average {_MINUTE}.",
    "it is near 1 at a high rate: each commit costs the broker",
    lambda v: v.spread("transaction_records", "avg"),
)

_add(
    _TASK + "running_ratio",
    _G,
    "The share of the attempt's life in which it was running, 0 to 1.",
    "it falls while the connector is not paused",
    lambda v: v.ratio("RUNNING", "running_ms"),
)
_add(
    _TASK + "pause_ratio",
    _G,
    "The share of the attempt's life in which it was paused, 0 to 1.",
    "it was paused and not resumed",
    lambda v: v.ratio("PAUSED", "paused_ms"),
)
_add(
    _TASK + "offset_commit_max_time_ms",
    _G,
    f"The longest commit of a transaction with its offsets {_MINUTE}, milliseconds.",
    "it comes near transaction.timeout.ms",
    lambda v: v.spread("commit_times_ms", "max"),
)
_add(
    _TASK + "offset_commit_avg_time_ms",
    _G,
    f"A commit of a transaction with its offsets on average {_MINUTE}, milliseconds.",
    "it grows: the brokers get slower",
    lambda v: v.spread("commit_times_ms", "avg"),
)
_add(
    _TASK + "offset_commit_failure_percentage",
    _G,
    f"The share of commits that failed {_MINUTE}, 0 to 1 as in Kafka "
    "Connect. Nothing is lost: what was in them is read again.",
    "it is above 0",
    lambda v: v.spread("commit_failed", "avg"),
)
_add(
    _TASK + "offset_commit_success_percentage",
    _G,
    f"The share of commits that succeeded {_MINUTE}, 0 to 1.",
    "it is below 1",
    lambda v: None if (x := v.spread("commit_failed", "avg")) is None else 1 - x,
)
_add(
    _TASK + "batch_size_max",
    _G,
    f"Records in the largest batch of the source {_MINUTE}.",
    "",
    lambda v: v.spread("batch_records", "max"),
)
_add(
    _TASK + "batch_size_avg",
    _G,
    f"Records in a batch of the source on average {_MINUTE}.",
    "it is near 1 at a high rate with transaction.boundary=poll",
    lambda v: v.spread("batch_records", "avg"),
)

_add(
    _ERROR + "total_record_failures",
    Kind.UNTYPED,
    "Errors in reading, transforming or converting that failed the task, or a record that was skipped.",
    "it grows",
    lambda v: v.total("record_failures"),
)
_add(
    _ERROR + "total_record_errors",
    Kind.UNTYPED,
    "Errors in reading, transforming or converting, retried ones included.",
    "it grows steadily",
    lambda v: v.total("record_errors"),
)
_add(
    _ERROR + "total_records_skipped",
    Kind.UNTYPED,
    "Records skipped because of errors (errors.tolerance=all).",
    "it grows",
    lambda v: v.recorded.skipped + v.recorded.dead_letters,
)
_add(
    _ERROR + "total_retries",
    Kind.UNTYPED,
    "Polls, transforms and conversions that asked to be repeated.",
    "it grows steadily: the source is away or overloaded",
    lambda v: v.total("retries"),
)
_add(
    _ERROR + "total_errors_logged",
    Kind.UNTYPED,
    "Errors of records written to the log (errors.log.enable).",
    "it grows",
    lambda v: v.total("errors_logged"),
)
_add(
    _ERROR + "deadletterqueue_produce_requests",
    Kind.UNTYPED,
    "Records sent to the dead letter topic.",
    "it grows",
    lambda v: v.recorded.dead_letters,
)
_add(
    _ERROR + "deadletterqueue_produce_failures",
    Kind.UNTYPED,
    "Records that could not be written to the dead letter topic: always 0, since that fails transaction and task.",
    "it is not 0",
    lambda v: 0,
)
_add(
    _ERROR + "last_error_timestamp",
    _G,
    "When the attempt had its last error, milliseconds since the epoch, 0 for never.",
    "it is recent",
    lambda v: v.measures.get("last_error_ms", 0),
)


def sent_bytes(rows: Iterable[TaskMetricsRow]) -> tuple[Family, list[Sample]]:
    """Return the bytes that each task's producer has sent, under the producer's client id in Kafka Connect."""
    family = Family(
        "kafka_producer_producer_metrics_outgoing_byte_total",
        Kind.COUNTER,
        "Bytes of records that the attempt has handed to Kafka.",
        "it does not grow although the source has new data",
    )
    return family, [
        (labels({"client_id": f"connector-producer-{row.task.connector}-{row.task.number}"}), row.task.bytes)
        for row in rows
        if row.own
    ]


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
