"""Writes small Delta and Iceberg tables for the tests of SparkTableSource, with those projects' own libraries.

It writes tests/connectors/golden/tables.tar.gz, with the rows that the library itself reads from each version. The
libraries are not dependencies of the project: `pip install deltalake 'pyiceberg[sql-sqlite]'`, then `python
tools/golden_tables.py`.
"""

import json
import tarfile
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow

TARGET = Path(__file__).resolve().parents[1] / "tests" / "connectors" / "golden" / "tables.tar.gz"


def write_delta(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Write seven versions: partitions with odd names, deleted rows, a checkpoint, a column that was added later."""
    from deltalake import DeltaTable, write_deltalake  # type: ignore[import-not-found]

    where = str(folder)
    for first in (0, 10, 20):
        numbers = range(first, first + 10)
        rows = {
            "n": list(numbers),
            "day": [None if n % 4 == 3 else date(2026, 1, 1 + n % 4) for n in numbers],
            "who": [("a b", "c/d=e", "ä")[n % 3] for n in numbers],
            "text": [f"row {n}" for n in numbers],
        }
        write_deltalake(where, pyarrow.table(rows), partition_by=["day", "who"], mode="append")
    DeltaTable(where).delete("n % 5 = 0")
    DeltaTable(where).create_checkpoint()
    later = pyarrow.table(
        {"n": [30, 31], "day": [date(2026, 2, 1)] * 2, "who": ["x"] * 2, "text": ["a", "b"], "price": [1.5, None]}
    )
    write_deltalake(where, later, mode="append", schema_mode="merge")
    DeltaTable(where).optimize.compact()
    last = pyarrow.table({"n": [99], "day": [None], "who": ["y"]}, later.schema.remove(4).remove(3))
    write_deltalake(where, last, mode="overwrite", schema_mode="overwrite")
    newest = DeltaTable(where).version()
    return {
        str(version): DeltaTable(where, version=version).to_pyarrow_table().to_pylist() for version in range(newest + 1)
    }


def write_iceberg(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Write snapshots of a partitioned table: appends, deleted rows, a column that was added later."""
    from pyiceberg.catalog.sql import SqlCatalog  # type: ignore[import-not-found]
    from pyiceberg.partitioning import PartitionField, PartitionSpec  # type: ignore[import-not-found]
    from pyiceberg.schema import Schema  # type: ignore[import-not-found]
    from pyiceberg.transforms import IdentityTransform  # type: ignore[import-not-found]
    from pyiceberg.types import (  # type: ignore[import-not-found]
        DateType,
        DoubleType,
        ListType,
        LongType,
        NestedField,
        StringType,
    )

    catalog = SqlCatalog("c", uri=f"sqlite:///{folder.parent}/catalog.sqlite", warehouse=f"file://{folder.parent}")
    catalog.create_namespace("db")
    schema = Schema(
        NestedField(1, "n", LongType()),
        NestedField(2, "day", DateType()),
        NestedField(3, "tags", ListType(4, StringType(), element_required=False)),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    table = catalog.create_table("db.t", schema, location=f"file://{folder}", partition_spec=spec)
    for first in (0, 10):
        days = [None if n % 4 == 3 else date(2026, 1, 1 + n % 4) for n in range(first, first + 10)]
        tags = [[f"t{n}", None] for n in range(first, first + 10)]
        columns = {"n": list(range(first, first + 10)), "day": days, "tags": tags}
        table.append(pyarrow.table(columns, table.schema().as_arrow()))
    table.delete("n >= 5 and n < 12")
    with table.update_schema() as update:
        update.add_column("price", DoubleType())
    later = {"n": [30], "day": [date(2026, 2, 1)], "tags": [[]], "price": [1.5]}
    table.append(pyarrow.table(later, table.schema().as_arrow()))
    (folder.parent / "catalog.sqlite").unlink()
    return {
        str(one.snapshot_id): table.scan(snapshot_id=one.snapshot_id).to_arrow().to_pylist()
        for one in table.metadata.snapshots
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as root, tarfile.open(TARGET, "w:gz") as archive:
        expected = {"delta": write_delta(Path(root) / "delta"), "iceberg": write_iceberg(Path(root) / "iceberg")}
        (Path(root) / "expected.json").write_text(json.dumps(expected, default=str))
        archive.add(root, ".")


if __name__ == "__main__":
    main()
