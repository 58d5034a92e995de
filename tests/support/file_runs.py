"""Runs FilesSource in this process, with the offsets and records that a worker would keep."""

import gzip
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet
import pytest

from ringfence.connectors.api import (
    ConnectorError,
    DataException,
    OffsetRecord,
    RecordBatch,
    RetriableError,
    SourceRecord,
    Struct,
    UnreadableRecord,
)
from ringfence.connectors.builtin.files.task import FilesSourceTask
from tests.connectors.fakes import FakeContext, FakeOffsets

Offsets = list[tuple[dict[str, object], Mapping[str, object]]]


def config_of(folder: Path, **more: str) -> dict[str, str]:
    return {
        "url": f"file://{folder}",
        "topic": "rows",
        "format": "text",
        "settle.ms": "0",
        "files.share": "0/1",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def started(config: Mapping[str, str], offsets: Offsets | None = None, *, raw: bool = False) -> FilesSourceTask:
    task = FilesSourceTask()
    task.context = FakeContext(FakeOffsets(offsets or []), raw=raw)
    task.start(config)
    task._interval = 0.0
    return task


class Committed:
    """What a consumer would see, and the offsets topic."""

    def __init__(self, *, tolerant: bool = False) -> None:
        """tolerant: `errors.tolerance=all`."""
        self.values: list[object] = []
        self.refused: list[UnreadableRecord] = []
        self.tolerant = tolerant
        self.offsets: dict[str, Mapping[str, object]] = {}

    def take(self, polled: Sequence[SourceRecord] | RecordBatch | None) -> bool:
        if isinstance(polled, RecordBatch):
            self.values += polled.values
            self.offsets[_key(polled.source_partition)] = polled.source_offset
            return True
        for record in polled or ():
            if isinstance(record, UnreadableRecord):
                if not self.tolerant:
                    raise record.error
                self.refused.append(record)
            elif not isinstance(record, OffsetRecord):
                self.values.append(record.value)
            if record.source_offset is None:
                self.offsets.pop(_key(record.source_partition), None)
            else:
                self.offsets[_key(record.source_partition)] = record.source_offset
        return bool(polled)

    def known(self) -> Offsets:
        return [(orjson.loads(key), offset) for key, offset in self.offsets.items()]

    def run(self, config: Mapping[str, str], polls: int = 1000, *, raw: bool = False) -> "Committed":
        """An attempt from these offsets on, until there is nothing or it is killed."""
        task = started(config, self.known(), raw=raw)
        for _ in range(polls):
            if not self.take(task.poll()):
                break
            task.commit()
        task.stop()
        return self


class Server(Protocol):
    """A server with files that can be started again."""

    def start(self) -> object: ...

    def stop(self) -> None: ...


def drain(committed: Committed, task: FilesSourceTask) -> None:
    """Take what is there until there is nothing."""
    while committed.take(task.poll()):
        pass


def read_in_attempts(config: Mapping[str, str]) -> tuple[Committed, list[object]]:
    """Read the files `{number}.txt` of `parts` in attempts that end anywhere. Returns them with what was expected."""
    committed = Committed()
    for _ in range(7):
        committed.run(config, polls=1)
    expected: list[object] = [f"{number}-{line}" for number in range(3) for line in range(5)]
    assert committed.values == expected
    assert {offset["done"] for offset in committed.offsets.values()} == {True}
    return committed, expected


PARTS = [b"".join(b"%d-%d\n" % (number, line) for line in range(5)) for number in range(3)]


def check_changed(committed: Committed, config: Mapping[str, str], name: str, expected: Sequence[object]) -> None:
    """Check that the file, which is `changed` now, ends the task, and is read again if the configuration says so."""
    with pytest.raises(ConnectorError, match=f"{re.escape(name)} has changed"):
        committed.run(config)
    assert committed.run({**config, "on.change": "read"}).values == [*expected, "changed"]


def check_no_mixture(config: Mapping[str, str], write: Callable[[bytes], object], old: bytes, new: bytes) -> None:
    """Check that of the content `old`, overwritten by `new` in the middle, no line is mixed with those of `new`."""
    write(old)
    task = started({**config, "batch.size": "100000"})
    committed = Committed()
    committed.take(task.poll())
    write(new)
    with pytest.raises(ConnectorError, match=r"large\.txt has changed"):
        drain(committed, task)
    task.stop()
    assert set(committed.values) == {"old"}


def check_it_goes_on(server: Server, config: Mapping[str, str], lines: int) -> None:
    """Check that a file with the numbers below `lines` is read on after the server was killed and started again."""
    task = started(config)
    committed = Committed()
    committed.take(task.poll())
    server.stop()
    with pytest.raises(RetriableError, match="cannot be read"):
        drain(committed, task)  # what it had read ahead comes first
    server.start()
    drain(committed, task)
    task.stop()
    assert committed.values == [str(line) for line in range(lines)]


def _key(partition: Mapping[str, object]) -> str:
    return orjson.dumps(partition, option=orjson.OPT_SORT_KEYS).decode()


def plain(values: Sequence[object]) -> list[object]:
    return [
        dict(zip(value.schema.names, value.values, strict=True)) if isinstance(value, Struct) else value
        for value in values
    ]


def write(folder: Path, format: str, count: int) -> list[object]:
    """A file of each format with the numbers 0 … count - 1, and what is expected of it."""
    if format == "text":
        (folder / "a.txt").write_bytes(b"\n".join(b"line %d" % number for number in range(count)))
        return [f"line {number}" for number in range(count)]
    if format == "jsonl":
        lines = [orjson.dumps({"n": number}) for number in range(count)]
        (folder / "a.jsonl.gz").write_bytes(gzip.compress(b"\n\n".join(lines)))
        return [{"n": number} for number in range(count)]
    if format == "csv":
        rows = "".join(f'{number},"with ""quotes"", and\r\nline {number}"\r\n' for number in range(count))
        (folder / "a.csv").write_bytes(b"\xef\xbb\xbfn,text\r\n" + rows.encode())
        return [{"n": str(number), "text": f'with "quotes", and\r\nline {number}'} for number in range(count)]
    if format == "parquet":
        table = pa.table({"n": pa.array(range(count), pa.int32())})
        pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=3)
        return [{"n": number} for number in range(count)]
    schema = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]}
    with (folder / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"n": number} for number in range(count)], sync_interval=20)
    return [{"n": number} for number in range(count)]


def read(folder: Path, name: str, data: bytes, format: str, **more: str) -> Committed:
    """Return what arrives of one file with `errors.tolerance=all`."""
    (folder / name).write_bytes(data)
    return Committed(tolerant=True).run(config_of(folder, format=format, **more))


def read_restarted(folder: Path, name: str, data: bytes, format: str, batch: int, **more: str) -> Committed:
    """Do the same with a task that ends after every batch and is started anew from its offset."""
    (folder / name).write_bytes(data)
    config = config_of(folder, format=format, batch_size=str(batch), **more)
    committed = Committed(tolerant=True)
    for _ in range(10_000):
        committed.run(config, polls=1)
        if any(offset.get("done") for offset in committed.offsets.values()):
            return committed
    raise AssertionError("the file has no end")


def summary(committed: Committed) -> tuple[list[object], list[object]]:
    return plain(committed.values), [(letter.value, str(letter.error)) for letter in committed.refused]


def reasons(committed: Committed) -> list[str]:
    for letter in committed.refused:
        assert isinstance(letter.error, DataException)
        assert letter.error.where
        assert letter.error.row
        assert letter.error.remedy
    return [str(letter.error) for letter in committed.refused]


def rows(committed: Committed) -> list[list[object]]:
    """Return the fields of each value."""
    return [list(value.values()) for value in plain(committed.values) if isinstance(value, dict)]


def parquet(column: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"a": column}), file, **options)
    return file.getvalue()
