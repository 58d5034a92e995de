"""SparkTableSource's plan: which parts a table has, and what is refused. No broker."""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from ringfence.connectors.api import ConnectorError, RetriableError, StructBatch
from ringfence.connectors.builtin.spark_table.connector import (
    CONFIG_DEF,
    SparkTableSourceConnector,
    open_table,
    parse_part,
)
from ringfence.connectors.builtin.spark_table.key_ranges import RangePart, cut
from ringfence.connectors.builtin.spark_table.parquet_table import FilePart, divide
from ringfence.connectors.builtin.spark_table.plan import Head, Planning, own_parts, parse_head
from ringfence.connectors.builtin.spark_table.snapshots import check_columns, check_names, folder_values, is_data
from ringfence.connectors.builtin.spark_table.task import SparkTableSourceTask
from tests.connectors.fakes import FakeOffsets


@pytest.mark.parametrize(
    "groups, rows, expected",
    [
        ([10, 10, 10], 20, [(0, 20), (20, 30)]),
        ([10, 10], 1, [(0, 10), (10, 20)]),
        ([7], 100, [(0, 7)]),
        ([0, 5], 5, [(0, 5)]),
        ([], 5, []),
        ([0], 5, []),
    ],
)
def test_parts_are_whole_row_groups(groups: list[int], rows: int, expected: list[tuple[int, int]]) -> None:
    assert list(divide(groups, rows)) == expected


@pytest.mark.parametrize("count", [1, 2, 7, 200])
def test_each_part_is_dealt_to_one_task(count: int) -> None:
    dealt = [part for index in range(count) for part in own_parts(Head("p", 100), index, count)]
    assert sorted(dealt) == list(range(100))


def test_folders_tell_columns() -> None:
    assert folder_values("day=2026-01-31/who=a%3Db/x/part-0.parquet") == {"day": "2026-01-31", "who": "a=b"}
    assert folder_values("day=__HIVE_DEFAULT_PARTITION__/p.parquet") == {"day": None}


@pytest.mark.parametrize(
    "name",
    [
        "_delta_log/00000000000000000000.json",
        "t/_delta_log/00000000000000000000.json",
        "metadata/v1.metadata.json",
        "t/metadata/v1.metadata.json",
        "_temporary/0/part-0.parquet",
        "day=1/_temporary/0/part-0.parquet",
    ],
)
def test_a_folder_whose_files_do_not_say_which_rows_count_is_refused(name: str) -> None:
    with pytest.raises(ConnectorError, match="folder"):
        check_names(["part-0.parquet", name])


def test_a_hudi_table_is_refused() -> None:
    with pytest.raises(ConnectorError, match="Hudi"):
        check_columns(["_hoodie_commit_time", "id"])
    check_columns(["id"])


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("part-0.parquet", True),
        ("_SUCCESS", False),
        ("_metadata", False),
        ("x/_old/part-0.parquet", False),
        ("_day=1/part-0.parquet", True),
        ("k=1/_day=2/part-0.parquet", True),
    ],
)
def test_what_spark_reads_is_read(name: str, read: bool) -> None:
    assert is_data(name) is read


def test_offsets_are_read_as_they_are_written() -> None:
    part = FilePart("p", "a.parquet", "e", 10, 30, 20)
    assert parse_part(part.as_json()) == part
    assert parse_head(Head("p", 3).as_json()) == Head("p", 3)
    with pytest.raises(ConnectorError, match="row between"):
        parse_part(part._replace(row=31).as_json())
    with pytest.raises(ConnectorError, match="reset"):
        parse_head({"plan": "p"})


def test_task_configurations_deal_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringfence.connectors.sdk.files.check", lambda *_: None)
    connector = SparkTableSourceConnector()
    connector.context = type("Context", (), {"trial": False, "offset_reader": FakeOffsets()})()
    connector.start({"url": f"file://{tmp_path}", "topic": "t"})
    assert [each["table.share"] for each in connector.task_configs(3)] == ["0/3", "1/3", "2/3"]


@pytest.mark.parametrize(
    ("lower", "upper", "count", "expected"),
    [
        (0, 100, 4, [25, 50, 75]),
        (0, 3, 100, [1, 2]),
        (7, 7, 4, []),
        (-10, 10, 1, []),
        (date(2026, 1, 1), date(2026, 1, 11), 2, [date(2026, 1, 6)]),
        (datetime(1960, 1, 1), datetime(1960, 1, 3), 2, [datetime(1960, 1, 2)]),  # noqa: DTZ001
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC), 2, [datetime(2026, 1, 2, tzinfo=UTC)]),
    ],
)
def test_ranges_are_of_equal_width(lower: object, upper: object, count: int, expected: list[object]) -> None:
    assert cut(lower, upper, count) == expected


def test_offsets_of_ranges_are_read_as_they_are_written() -> None:
    part = RangePart("p", ["day", "id"], "2026-01-01", None, ["2026-01-02", 5], done=False)
    assert parse_part(part.as_json()) == part
    wrongs: list[dict[str, object]] = [{"after": [1]}, {"after": [None, 1]}, {"done": 1}, {"start": [1]}, {"key": []}]
    for wrong in wrongs:
        with pytest.raises(ConnectorError, match="for each column of the key"):
            parse_part({**part.as_json(), **wrong})


def test_the_plan_of_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringfence.connectors.sdk.files.check", lambda *_: None)
    monkeypatch.setattr("ringfence.connectors.sdk.files._judge", lambda *_: None)
    for number in range(3):
        rows = pyarrow.table({"n": range(number * 100, number * 100 + 100)})
        (tmp_path / f"d={number}").mkdir()
        pyarrow.parquet.write_table(rows, tmp_path / f"d={number}" / "part.parquet", row_group_size=25)
    (tmp_path / "_SUCCESS").touch()
    settings = CONFIG_DEF.parse({"url": f"file://{tmp_path}", "topic": "t", "part.rows": "50"})
    table = open_table(settings)
    planning = Planning(table, preview=False)
    parts = planning.take()
    assert planning.head is not None
    assert planning.head.parts == 6
    assert [(number, part.file, part.first, part.end) for number, part in parts] == [
        (2 * file + half, f"d={file}/part.parquet", 50 * half, 50 * half + 50) for file in range(3) for half in range(2)
    ]
    changing = table.divide("p", preview=False)
    next(changing)
    pyarrow.parquet.write_table(pyarrow.table({"n": [1]}), tmp_path / "d=1" / "part.parquet")
    with pytest.raises(RetriableError, match=r"d=1/part\.parquet"):
        list(changing)


class _NothingCommitted:
    """Of a task's context: what it asks for in these tests."""

    @property
    def offset_reader(self) -> "_NothingCommitted":
        return self

    def offset(self, partition: object) -> None:
        return None


def test_a_file_that_changes_after_the_plan_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringfence.connectors.sdk.files._judge", lambda *_: None)
    (tmp_path / "d=1").mkdir()
    for name in ("d=1/a.parquet", "d=1/b.parquet"):
        pyarrow.parquet.write_table(pyarrow.table({"n": range(10)}), tmp_path / name)
    task = SparkTableSourceTask()
    task.context = _NothingCommitted()  # type: ignore[assignment]
    task.start({"url": f"file://{tmp_path}", "topic": "t", "table.share": "0/1"})
    try:
        plan = task.poll()
        assert plan is not None
        assert len(plan) == 3, "two parts and the plan itself"
        batch = task.poll()
        assert isinstance(batch, StructBatch)
        records = list(batch)
        assert [record.value["n"] for record in records] == list(range(10))  # type: ignore[index]
        assert records[-1].value["d"] == "1"  # type: ignore[index]
        pyarrow.parquet.write_table(pyarrow.table({"n": range(20)}), tmp_path / "d=1" / "b.parquet")
        with pytest.raises(ConnectorError, match=r"d=1/b\.parquet .* after the plan was made.*reset its offsets"):
            task.poll()
    finally:
        task.stop()
