"""A data source of PySpark: rows with numbers, as many as a file says."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition


class Numbers(DataSource):
    """Options: `file`, which holds how many rows there are."""

    def schema(self) -> str:
        return "n string"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        return Reader(Path(self.options["file"]))


class Reader(DataSourceStreamReader):
    """Reads in five parts what came since the last plan."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        return {"next": int(self._file.read_text())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        step = max(1, (end["next"] - start["next"] + 4) // 5)
        return [InputPartition((n, min(n + step, end["next"]))) for n in range(start["next"], end["next"], step)]

    def read(self, partition: Any) -> Iterator[tuple[str]]:
        return iter([(f"row {n}",) for n in range(*partition.value)])
