"""A thread keeps its SQLite connection only as long as a new one would read the same."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from ringfence.environment import database, serve_requests
from ringfence.sqlite.base import DatabaseWrapper


def _fill(path: Path, *numbers: int) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE IF NOT EXISTS numbers (number)")
        other.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in numbers])
    other.close()


def _read(kept: DatabaseWrapper) -> list[int]:
    with kept.cursor() as cursor:
        cursor.execute("SELECT number FROM numbers ORDER BY number")
        return [row[0] for row in cursor.fetchall()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kept.sqlite3"
    _fill(path, 1, 2)
    return path


@pytest.fixture
def kept(path: Path) -> Iterator[DatabaseWrapper]:
    settings: dict[str, Any] = database(f"sqlite:///{path}")
    serve_requests(settings)
    kept = DatabaseWrapper({**connections["default"].settings_dict, **settings}, "kept")
    yield kept
    kept.close()


def test_the_next_request_has_the_same_connection_and_reads_what_others_have_written(
    kept: DatabaseWrapper, path: Path
) -> None:
    assert _read(kept) == [1, 2]
    before = kept.connection
    kept.close_if_unusable_or_obsolete()
    _fill(path, 3)
    assert _read(kept) == [1, 2, 3]
    assert kept.connection is before


def test_a_replaced_file_is_opened(kept: DatabaseWrapper, path: Path, tmp_path: Path) -> None:
    assert _read(kept) == [1, 2]
    kept.close_if_unusable_or_obsolete()
    _fill(tmp_path / "another", 7)
    os.replace(tmp_path / "another", path)
    assert _read(kept) == [7]


def test_a_cursor_that_is_half_read_keeps_nobody_on_old_rows(kept: DatabaseWrapper, path: Path) -> None:
    half_read = kept.cursor()
    half_read.execute("SELECT number FROM numbers")
    assert half_read.fetchone() == (1,)
    kept.close_if_unusable_or_obsolete()
    _fill(path, 3)
    assert _read(kept) == [1, 2, 3]
