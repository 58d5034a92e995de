"""Every page on a phone, where connectors, topics, transforms and workers have names of 120 characters."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.browser.conftest import Visitors
from tests.e2e.browser.pages import PAGES, STATUS
from tests.e2e.browser.scene import Scene
from tests.e2e.browser.visitor import NARROW
from tests.e2e.up import Up
from tests.support.names import unique

LENGTH = 120


def lengthen(kind: str) -> str:
    """A name without a place to break it."""
    name = unique(kind).replace("-", "_")
    return name + "x" * (LENGTH - len(name))


@contextlib.contextmanager
def _long_worker(up: Up, connector: str) -> Iterator[None]:
    """A worker of such a name, which has been silent for a minute, so that each page's head names it."""
    name, database = lengthen("worker"), up.data / "ringfence.sqlite3"
    with contextlib.closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as rows:
        rows.execute("INSERT INTO mirror_worker VALUES (?, 'i', 'enabled', 0, '1', 1)", (name,))
        rows.execute(
            "INSERT INTO heartbeats_heartbeat "
            "(worker, incarnation, began_at, beat_at, kafka_error, redis_error, projection_error, ended) "
            "VALUES (?, 'i', datetime('now', '-1 hour'), datetime('now', '-1 minute'), '', '', '', 0)",
            (name,),
        )
        rows.execute("UPDATE mirror_task SET worker = ? WHERE connector = ?", (name, connector))
        try:
            yield
        finally:
            rows.execute("DELETE FROM mirror_worker WHERE worker = ?", (name,))
            rows.execute("DELETE FROM heartbeats_heartbeat WHERE worker = ?", (name,))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_page_scrolls_sideways_on_a_phone(visitors: Visitors, platform: Up, tmp_path: Path) -> None:
    alias = lengthen("alias")
    transform = {"transforms": alias, f"transforms.{alias}.type": "InsertHeader"}
    transform |= {f"transforms.{alias}.header": lengthen("header"), f"transforms.{alias}.value.literal": "x"}
    wider = {}
    with Scene(platform, tmp_path, naming=lengthen, more=transform) as scene:
        visitor = visitors(width=NARROW)
        with _long_worker(platform, scene.names["failed"]):
            for name, path in PAGES.items():
                if name in STATUS:
                    visitor.tolerate_refusal(STATUS[name])
                response = visitor.page.goto(path.format(**scene.names), wait_until="load")
                assert response is not None
                assert response.status == STATUS.get(name, 200), name
                if more := visitor.overflow():
                    wider[name] = more, visitor.what_overflows()
    assert wider == {}
