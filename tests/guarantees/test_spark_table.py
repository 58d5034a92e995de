"""SparkTableSource as Spark jobs, two tasks side by side: each row once, though processes of executors are killed.

The tables are folders of Parquet files, as they are and as versions of Delta and Iceberg tables, large enough to kill
readers.
"""

import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow
import pyarrow.parquet
import pytest

from ringfence.engine.spark.driver import SparkHost
from tests.guarantees.stage import Stage
from tests.support.postgres import Postgres, new_postgres
from tests.support.spark_tables import Tasks, fill
from tests.support.waiting import eventually

_GOLDEN: Final = Path(__file__).parents[1] / "connectors" / "golden" / "tables.tar.gz"
"""Tables that Delta's and Iceberg's own libraries wrote: the Avro schemas are theirs."""
_FIELD: Final = {"id": 1, "name": "n", "type": "string", "required": False}


class LakeTable:
    """A column `n` of texts. `write` adds a version of these numbers alone: it takes the place of the one before."""

    def __init__(self, folder: Path, kind: str) -> None:
        """kind: parquet, which has no versions, delta or iceberg."""
        self.folder = folder
        self._kind = kind
        self._version = -1
        self._files: list[Path] = []
        folder.mkdir()

    def write(self, numbers: range, files: int) -> None:
        """In so many files, with row groups of 250."""
        self._version += 1
        former, self._files = self._files, []
        size = -(-len(numbers) // files)
        for index in range(files):
            path = self.folder / f"part-{self._version}-{index:05}.parquet"
            self._write_file(path, [str(n) for n in numbers[index * size : (index + 1) * size]])
            self._files.append(path)
        match self._kind:
            case "delta":
                self._commit_delta(former)
            case "iceberg":
                self._commit_iceberg()
            case _:
                assert not former, "a folder of files has no versions"

    def _write_file(self, path: Path, texts: Sequence[str]) -> None:
        field = pyarrow.field("n", pyarrow.string(), metadata={b"PARQUET:field_id": b"1"})
        table = pyarrow.table([texts], schema=pyarrow.schema([field]))
        pyarrow.parquet.write_table(table, path, row_group_size=250)

    def _commit_delta(self, former: Sequence[Path]) -> None:
        log = self.folder / "_delta_log"
        log.mkdir(exist_ok=True)
        fields = [{"name": "n", "type": "string", "nullable": True, "metadata": {}}]
        actions: list[dict[str, Any]] = [{"remove": {"path": path.name, "dataChange": True}} for path in former]
        for path in self._files:
            add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "dataChange": True}
            actions.append({"add": {**add, "modificationTime": int(path.stat().st_mtime * 1000)}})
        if self._version == 0:
            about = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
            about |= {"configuration": {}, "schemaString": json.dumps({"type": "struct", "fields": fields})}
            actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": about}, *actions]
        text = "\n".join(json.dumps(action) for action in actions)
        (log / f"{self._version:020}.json").write_text(text)

    def _commit_iceberg(self) -> None:
        metadata = self.folder / "metadata"
        metadata.mkdir(exist_ok=True)
        (_, manifest_schema, entry), (_, list_schema, listed) = _golden_manifests()
        snapshot = self._version + 1
        manifest, manifests = metadata / f"{snapshot}-m0.avro", metadata / f"snap-{snapshot}.avro"
        entries = []
        for path in self._files:
            file = {**entry["data_file"], "file_path": f"file://{path}", "file_size_in_bytes": path.stat().st_size}
            entries.append({**entry, "snapshot_id": snapshot, "data_file": file})
        with manifest.open("wb") as out:
            fastavro.writer(out, manifest_schema, entries)
        with manifests.open("wb") as out:
            fastavro.writer(out, list_schema, [{**listed, "manifest_path": f"file://{manifest}"}])
        table = {
            "format-version": 2,
            "location": f"file://{self.folder}",
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": [_FIELD]}],
            "current-snapshot-id": snapshot,
            "snapshots": [{"snapshot-id": snapshot, "schema-id": 0, "manifest-list": f"file://{manifests}"}],
        }
        (metadata / f"v{snapshot}.metadata.json").write_text(json.dumps(table))


def _golden_manifests() -> Iterator[tuple[str, Any, Any]]:
    """Of a manifest and of a manifest list: the name, the Avro schema, and a record."""
    with tarfile.open(_GOLDEN) as archive:
        names = sorted(name for name in archive.getnames() if name.endswith(".avro"))
        for name in (next(each for each in names if "/snap-" not in each), next(n for n in names if "/snap-" in n)):
            content = archive.extractfile(name)
            assert content is not None
            reader = fastavro.reader(content)
            yield name, reader.writer_schema, next(iter(reader))


FILES, ROWS, TASKS = 10, 2000, 2
DB_ROWS = 40_000


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkHost]:
    host = SparkHost(TASKS)
    host.warm()
    yield host
    host.stop()


def _table(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The connector's settings, and the worker's."""
    table = {"url": f"file://{folder}", "part.rows": "500", "exactly.once.support": "required"}
    return table, {"file.roots": str(folder)}


@pytest.mark.timeout(240)
@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_each_row_once_while_processes_of_tasks_are_killed(
    stage: Stage, spark: SparkHost, tmp_path: Path, kind: str
) -> None:
    """A table with versions gets another one in the meantime, without the rows of the one before."""
    made, total = LakeTable(tmp_path / "table", kind), FILES * ROWS
    made.write(range(total), FILES)
    tasks = Tasks(stage, spark, *_table(made.folder), batch=30)

    def change() -> None:
        if kind != "parquet":
            made.write(range(total, total + 100), 1)

    assert tasks.read_under_kills(total, meanwhile=change) == list(range(total)), "a row is missing, or there twice"


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_a_second_copy_of_an_attempt_writes_nothing_twice(stage: Stage, spark: SparkHost, tmp_path: Path) -> None:
    """As Spark's speculation would start it, which workers refuse to switch on."""
    made, total = LakeTable(tmp_path / "table", "parquet"), FILES * ROWS
    made.write(range(total), FILES)
    tasks = Tasks(stage, spark, *_table(made.folder), batch=30)
    specs = [tasks.start(number) for number in range(TASKS)]
    eventually(lambda: len(stage.visible()) > 0, 90, "rows", pause=0.05)
    for spec in specs:
        tasks.submit(spec)
    assert tasks.read_rest(total) == list(range(total)), "a row is missing, or there twice"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with new_postgres() as made:
        yield made


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_each_row_of_a_table_in_a_database_once_in_hundreds_of_parts(
    stage: Stage, spark: SparkHost, server: Postgres
) -> None:
    table = {**fill(server, DB_ROWS), "exactly.once.support": "required"}
    found = Tasks(stage, spark, table, {"egress.allow": "loopback"}, batch=30).read_under_kills(DB_ROWS)
    assert found == list(range(DB_ROWS)), "a row is missing, or there twice"


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_without_fencing_rows_of_a_table_come_twice(stage: Stage, spark: SparkHost, server: Postgres) -> None:
    """So the test above can tell. A kill just behind a flush of the offsets costs nothing, so there are several."""
    worker = {"egress.allow": "loopback", "exactly.once.source.support": "disabled", "offset.flush.interval.ms": "1000"}
    found = Tasks(stage, spark, fill(server, DB_ROWS), worker, batch=30).read_under_kills(DB_ROWS, kills=6)
    assert set(found) == set(range(DB_ROWS))
    assert len(found) > DB_ROWS
