"""Rows of a busy cluster."""

from dataclasses import replace
from typing import Any

from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.topics.status import LeaderRecord, State, WorkerRecord
from tests.support.projections import project
from tests.support.topics import Topic, connector, connector_status, generation, task_status

MINUTE = {"min": 2, "max": 8, "sum": 10, "count": 2}


def busy(now_ms: int) -> Topic:
    """A connector with a task that works; returns the topic of events."""
    config, status, events = Topic(), Topic(), Topic()
    config.config(connector("c"), *generation("c", 1, 1))
    worker = WorkerRecord(WorkerId("w1"), Incarnation("i"), "enabled", 4, "1", 1)
    running = task_status("c", 0, State.RUNNING, generation=2)
    status.status(LeaderRecord(WorkerId("w1"), Incarnation("i"), 3, now_ms - 60_000, True))
    status.status(worker, replace(connector_status("c", State.RUNNING), version="2.1.0"), running)
    report: dict[str, Any] = {"type": "progress", "connector": "c", "task": 0, "generation": 2, "attempt": 1}
    report["data_as_of_ms"] = now_ms - 4_000
    spreads = "poll_ms batch_records active_records commit_times_ms commit_failed transaction_records"
    report |= dict.fromkeys(spreads.split(), MINUTE) | {"commit_failed": {"min": 0, "max": 1, "sum": 1, "count": 4}}
    report |= {
        "records": 100,
        "polled": 200,
        "transactions": 7,
        "aborted": 2,
        "retries": 3,
        "record_errors": 4,
        "producers_renewed": 6,
    }
    report |= {"running_ms": 6_000, "paused_ms": 2_000, "life_ms": 9_000, "open_records": 5}
    report |= {"last_poll_ms": now_ms - 2_000, "last_commit_ms": now_ms - 3_000, "open_since_ms": now_ms - 1_000}
    events.event(**report, time_ms=now_ms - 1_000)
    events.event(**{**report, "records": 150, "polled": 300}, time_ms=now_ms)
    events.event(type="round", connector="c", generation=2, stage="done", fenced=[{"id": "g-c-0"}])
    for role, topic in (("config", config), ("status", status), ("events", events)):
        project(role, topic)
    return events
