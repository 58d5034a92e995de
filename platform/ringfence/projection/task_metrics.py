"""The part of a task's progress report that only metrics show (`fencing.metrics`), kept as JSON beside the columns.

`measures`: the newest report's values, and `poll_rate` (polled records per second); `held`: records of a share group
that the task has, as of `held_ms`; `transactions_v2`: whether its transactions have epochs of their own (KIP-890), null
if no producer was reported. `totals`: counts over all attempts since the task was first seen. For the metrics
of plugins, see `source_metrics`.
"""

import json
from collections.abc import Mapping
from typing import Any

from ringfence.fencing.share.offset_ranges import MOST
from ringfence.fencing.topics.events import Event as Report
from ringfence.projection import plugin_metrics
from ringfence.projection.models import Task, pack

SPREADS = ("poll_ms", "batch_records", "active_records", "commit_times_ms", "commit_failed", "transaction_records")
"""{min, max, sum, count} of the last 30 to 60 seconds before the report."""

_CUMULATIVE = (
    "polled", "retries", "record_errors", "record_failures", "errors_logged", "commit_failures", "producers_renewed",
)  # fmt: skip
_LATEST = ("last_error_ms", "running_ms", "paused_ms", "life_ms")


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _spread(value: object) -> dict[str, float]:
    spread: Mapping[str, object] = value if isinstance(value, dict) else {}
    return {name: _number(spread.get(name)) for name in ("min", "max", "sum", "count")}


def _read_held(value: object) -> list[list[object]]:
    """Parse the ranges of a share group's records that the task has: topic, partition, first and last offset."""
    return [each for each in value[:MOST] if _is_range(each)] if isinstance(value, list) else []


def _is_range(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 4 or not isinstance(value[0], str):
        return False
    return all(type(one) is int and 0 <= one < 2**63 for one in value[1:]) and value[2] <= value[3]


def uses_transactions_v2(task: Task) -> bool | None:
    """Return whether each of its transactions has an epoch of its own (KIP-890), None if that is not known."""
    version: bool | None = json.loads(task.measures).get("transactions_v2")
    return version


def advance(task: Task, report: Report, gained: Mapping[str, int], seconds: float, *, same: bool) -> None:
    """Set both from a report. gained: the increase of other counters; same: the last report was of the same attempt."""
    measures: dict[str, Any] = json.loads(task.measures)
    before = measures if same else {}
    totals: dict[str, int] = json.loads(task.totals)
    now: dict[str, Any] = {name: int(_number(report.get(name))) for name in (*_CUMULATIVE, *_LATEST)}
    more = {name: max(0, now[name] - int(before.get(name, 0))) for name in _CUMULATIVE}
    for name, count in {**more, "transactions": gained["transactions"], "aborted": gained["aborted"]}.items():
        totals[name] = totals.get(name, 0) + count
    now["poll_rate"] = more["polled"] / seconds if seconds > 0.05 else before.get("poll_rate", 0)
    now |= {name: _spread(report.get(name)) for name in SPREADS}
    now |= plugin_metrics.keep(measures, report.get("gauges"), int(_number(report.get("time_ms"))))
    now |= {"held": _read_held(report.get("held")), "held_ms": int(_number(report.get("time_ms")))}
    now["transactional_id"] = str(report.get("transactional_id") or "")
    now["transactions_v2"] = version if isinstance(version := report.get("transactions_v2"), bool) else None
    task.measures, task.totals = pack(now), pack(totals)
