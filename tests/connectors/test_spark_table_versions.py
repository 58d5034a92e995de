"""SparkTableSource on tables that Delta's and Iceberg's own libraries wrote: the rows that these libraries read."""

import json
import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ringfence.connectors.api import ConnectorError, OffsetRecord, RecordBatch, Struct
from ringfence.connectors.builtin.spark_table.connector import SparkTableSourceConnector
from ringfence.connectors.builtin.spark_table.task import SparkTableSourceTask
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.connectors.fakes import FakeContext, FakeOffsets

GOLDEN = Path(__file__).parent / "golden" / "tables.tar.gz"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(root, filter="data")
    return root


@pytest.fixture
def tables(written: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy that a test may change, where the worker allows it."""
    shutil.copytree(written, tmp_path / "tables")
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits((str(tmp_path),)))
    yield tmp_path / "tables"
    worker_limits.declare(former)


def expected(tables: Path, kind: str) -> dict[str, Rows]:
    found = json.loads((tables / "expected.json").read_text())[kind]
    assert all(found.values()), "each version has rows"
    return {version: order(rows) for version, rows in found.items()}


def order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row["n"])


class Reader:
    """Reads by lives of three polls each, until all is read."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.config = {"url": f"file://{folder}", "topic": "t", "batch.size": "2", "table.share": "0/1"}
        self.config |= {key.replace("_", "."): value for key, value in settings.items()}
        self.offsets = FakeOffsets()
        self.rows: Rows = []

    def live(self, polls: int = 3) -> bool:
        """Whether there was something to do."""
        task, context = SparkTableSourceTask(), FakeContext(self.offsets)
        task.context = context
        try:
            task.start(self.config)
            for _ in range(polls):
                polled = task.poll() or []
                assert not isinstance(polled, RecordBatch)
                for record in polled:
                    self.offsets.put(record.source_partition, json.loads(json.dumps(record.source_offset)))
                    if not isinstance(record, OffsetRecord):
                        assert isinstance(record.value, Struct)
                        pairs = zip(record.value.schema.fields, record.value.values, strict=True)
                        self.rows.append({field.name: value for field, value in pairs})
        finally:
            task.stop()
        return not context.waits

    def read(self) -> Rows:
        while self.live():
            pass
        return order(json.loads(json.dumps(self.rows, default=str)))


@pytest.mark.parametrize("version", range(7))
def test_a_version_of_a_delta_table_has_the_rows_that_delta_reads(tables: Path, version: int) -> None:
    assert Reader(tables / "delta", table_version=str(version)).read() == expected(tables, "delta")[str(version)]


@pytest.mark.parametrize("number", range(4))
def test_a_snapshot_of_an_iceberg_table_has_the_rows_that_iceberg_reads(tables: Path, number: int) -> None:
    version, rows = [*expected(tables, "iceberg").items()][number]
    settings = {"iceberg.metadata.file": current(tables), "table.version": version}
    assert Reader(tables / "iceberg", **settings).read() == rows


def current(tables: Path) -> str:
    return max(file.name for file in (tables / "iceberg" / "metadata").glob("*.json"))


def test_the_version_of_the_plan_is_read_though_the_table_changes(tables: Path) -> None:
    log = tables / "delta" / "_delta_log"
    later = [(file.name, file.read_bytes()) for file in sorted(log.glob("0*[456].json"))]
    for name, _ in later:
        (log / name).unlink()
    reader = Reader(tables / "delta")
    reader.live()
    (head,) = (offset for _, offset in reader.offsets.known if "parts" in offset)
    assert head["version"] == "3"
    for name, content in later:
        (log / name).write_bytes(content)
    assert reader.read() == expected(tables, "delta")["3"]
    assert Reader(tables / "delta").read() == expected(tables, "delta")["6"]


def test_a_table_without_a_catalog_tells_its_metadata_file(tables: Path) -> None:
    metadata = tables / "iceberg" / "metadata"
    with pytest.raises(ConnectorError, match=r"Only its catalog knows"):
        Reader(tables / "iceberg").live()
    for file in sorted(metadata.glob("*.json")):
        file.rename(metadata / f"v{int(file.name[:5]) + 7}.metadata.json")  # 7 to 12: not in the order of their names
    assert Reader(tables / "iceberg").read() == [*expected(tables, "iceberg").values()][-1]


def _append(tables: Path, *actions: Mapping[str, object]) -> None:
    text = "\n".join(json.dumps(action) for action in actions)
    (tables / "delta" / "_delta_log" / f"{7:020}.json").write_text(text)


def test_a_file_that_gets_deletion_vectors_in_one_commit_is_refused(tables: Path) -> None:
    newest = (tables / "delta" / "_delta_log" / f"{6:020}.json").read_text().splitlines()
    (add,) = (json.loads(line)["add"] for line in newest if '"add"' in line)
    changed = {"add": {**add, "deletionVector": {"storageType": "u"}}}
    _append(tables, changed, {"remove": {"path": add["path"]}})
    with pytest.raises(ConnectorError, match="deletion vectors"):
        Reader(tables / "delta").live()


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["variantType"]}}, r"\(variantType\)"),
        ({"protocol": {"minReaderVersion": 4}}, "a later protocol"),
        (
            {"metaData": {"schemaString": "{}", "configuration": {"delta.columnMapping.mode": "name"}}},
            "column mapping",
        ),
        ({"add": {"path": "s3://other/x.parquet", "partitionValues": {}}}, "shallow clones"),
        ({"add": {"path": "gone.parquet", "partitionValues": {}}}, r"gone\.parquet of version 7 .* VACUUM"),
    ],
)
def test_what_of_delta_is_not_read_is_refused(tables: Path, action: dict[str, object], problem: str) -> None:
    _append(tables, action)
    with pytest.raises(ConnectorError, match=problem):
        Reader(tables / "delta").live()


def test_a_log_with_a_hole_is_refused(tables: Path) -> None:
    (tables / "delta" / "_delta_log" / f"{5:020}.json").unlink()
    with pytest.raises(ConnectorError, match="no commit 5"):
        Reader(tables / "delta").live()
    with pytest.raises(ConnectorError, match="no version 9: the newest is 6"):
        Reader(tables / "delta", table_version="9").live()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format-version": 3}, "format version 3"),
        ({"location": "s3://elsewhere"}, "outside its folder"),
        ({"current-snapshot-id": -1}, "no snapshot yet"),
    ],
)
def test_what_of_iceberg_is_not_read_is_refused(tables: Path, change: dict[str, object], problem: str) -> None:
    file = tables / "iceberg" / "metadata" / current(tables)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ConnectorError, match=problem):
        Reader(tables / "iceberg", iceberg_metadata_file=file.name).live()


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ({"name": "renamed"}, "another name or type for the column renamed"),
        ({"id": 77}, "lacks the column|that was dropped"),
        ({"type": "int"}, "another name or type"),
    ],
)
def test_files_under_other_columns_are_refused(tables: Path, field: dict[str, object], problem: str) -> None:
    file = tables / "iceberg" / "metadata" / current(tables)
    table = json.loads(file.read_text())
    table["schemas"][1]["fields"][0] |= field
    file.write_text(json.dumps(table))
    reader = Reader(tables / "iceberg", iceberg_metadata_file=file.name)
    with pytest.raises(ConnectorError, match=problem):
        reader.live()


def test_versions_of_a_folder_without_a_table_are_refused(tables: Path) -> None:
    shutil.rmtree(tables / "delta" / "_delta_log")
    with pytest.raises(ConnectorError, match=r"table\.version: a folder without a Delta or Iceberg table"):
        Reader(tables / "delta", table_version="1").live()


def test_a_table_is_accepted(tables: Path) -> None:
    assert SparkTableSourceConnector().validate({"url": f"file://{tables}/delta", "topic": "t"}) == {}


def test_a_test_of_the_connection_names_the_version_and_its_columns(tables: Path) -> None:
    connector = SparkTableSourceConnector()
    newest = connector.examine({"url": f"file://{tables}/delta"})
    assert newest.errors == {}
    assert re.match(r"Delta version 6, \d+ files?, \d+ columns: n, ", newest.summary), newest
    older = connector.examine({"url": f"file://{tables}/delta", "table.version": "1"})
    assert older.summary.startswith("Delta version 1, ")
    assert "no version 99" in str(connector.examine({"url": f"file://{tables}/delta", "table.version": "99"}).errors)
    iceberg = connector.examine({"url": f"file://{tables}/iceberg", "iceberg.metadata.file": current(tables)})
    assert re.match(r"Iceberg version \d+, \d+ files?, \d+ columns: n, ", iceberg.summary), iceberg
