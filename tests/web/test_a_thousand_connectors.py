"""No page costs more for a thousand connectors: as many queries as for ten, and at most 250 ms of CPU time."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.test import Client

from ringfence.alerts.models import Incident
from ringfence.encryption import encrypt_text
from ringfence.fencing.topics.status import State
from ringfence.history.models import OffsetSnapshot
from ringfence.projection.models import (
    ActiveTopic,
    Connector,
    Event,
    GenerationRow,
    Minute,
    RecordTotals,
    SourceOffset,
    Task,
    pack,
)
from tests.e2e.browser.pages import PAGES, STATUS
from tests.support.leader import FakeLeader
from tests.support.queries import count_queries
from tests.support.topics import connector

FEW, MANY = 10, 1_000
LIMIT_SECONDS = 0.25
"""Of CPU time of one request, on a page with all that it holds."""
_NAMES = {
    "running": "flights",
    "failed": "failed",
    "stopped": "stopped",
    "group": "payments",
    "queue": "orders",
    "readers": "r",
    "snapshot": "1",
}
_EMPTY = {"console, audit entry", "console, hand-over", "snapshots, none"}
"""Their rows are made by others."""


def test_pages_cost_the_same_for_a_thousand_connectors(client: Client, leader: FakeLeader, monkeypatch: Any) -> None:
    for name in ("flights", "stopped", "failed"):
        leader.config.config(connector(name))
        leader.start(name, tasks=1, state=State.FAILED if name == "failed" else State.RUNNING)
    OffsetSnapshot.objects.create(connector="stopped", number=1, time_ms=5, offsets="[]")
    topics = leader.topics
    monkeypatch.setattr(leader, "topics", lambda names=None: _with_topics_of_connectors(topics, names))
    paths = {
        name: path.format(**_NAMES)
        for name, path in PAGES.items()
        if name not in _EMPTY and STATUS.get(name, 200) == 200
    }
    _fill(FEW)
    few = count_queries(client, list(paths.values()))
    _fill(MANY)
    many, seconds = [], []
    for path in paths.values():
        began = time.process_time()
        many += count_queries(client, [path])
        seconds.append(time.process_time() - began)
    grown = {name: (of, to) for name, of, to in zip(paths, few, many, strict=True) if to > of}
    slow = {name: round(took, 3) for name, took in zip(paths, seconds, strict=True) if took > LIMIT_SECONDS}
    assert (grown, slow) == ({}, {}), f"queries for {FEW} and {MANY}; seconds"
    assert max(many) <= 31, "of the time axis with its timeline and logs"


def _with_topics_of_connectors(topics: Callable[..., Any], names: Sequence[str] | None) -> dict[str, Any]:
    answer = topics(names)
    if names is None:
        return {**answer, "names": [*answer["names"], *Connector.objects.values_list("name", flat=True)]}
    (facts, *_) = topics(["orders"])["topics"]
    return {"topics": [{**facts, "name": name} for name in names]}


def _fill(number: int) -> None:
    """As many connectors, each with a task, and with what a day leaves behind; every tenth has failed."""
    now_ms = time.time_ns() // 1_000_000
    names = [f"c{each}" for each in range(Connector.objects.count(), number)]
    bad = names[::10]
    model, task = Connector.objects.get(name="flights"), Task.objects.get(connector="flights")
    settings = model.settings
    rows: list[Any] = [
        _copy(
            model,
            name=name,
            config=encrypt_text(json.dumps({**settings, "name": name, "topic": name}), f"connector {name}"),
            health="UNHEALTHY" if name in bad else "HEALTHY",
            severity=90 if name in bad else 0,
            tasks_running=int(name not in bad),
            tasks_failed=int(name in bad),
        )
        for name in names
    ]
    recent = pack([[now_ms // 1000 - second, second * 7919 % 9973] for second in range(90, 0, -1)])
    rows += [
        _copy(task, connector=name, recent=recent, data_as_of_ms=now_ms, state="FAILED" if name in bad else "RUNNING")
        for name in names
    ]
    minute = now_ms // 60_000
    for name in names:
        rows += [
            RecordTotals(connector=name, task=0, records=7),
            ActiveTopic(connector=name, topic=name, since_ms=5),
            ActiveTopic(connector=name, topic="orders", since_ms=5),
            SourceOffset(connector=name, partition="{}", offset='{"n":1}'),
            GenerationRow(connector=name, generation=5, number=1, stage="done"),
            *(Event(connector=name, type="round", time_ms=now_ms - ago, summary="done") for ago in range(3)),
            *(Minute(connector=name, task=0, minute=minute - ago, state="RUNNING", records=9) for ago in range(9)),
        ]
    rows += [
        Incident(rule_name="f", kind="failed", subject=name, connector=name, summary="x", opened_ms=1, began_ms=1)
        for name in bad
    ]
    for kind in dict.fromkeys(type(row) for row in rows):
        kind.objects.bulk_create([row for row in rows if type(row) is kind], batch_size=500)


def _copy(row: Any, **fields: object) -> Any:
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return type(row)(**{**values, **fields, **({"id": None} if "id" in values else {})})
