"""FilesSource on a real folder: every line and row once, whatever happens in between."""

import bz2
import errno
import gzip
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import (
    ConnectorError,
    RecordBatch,
    RetriableError,
    SourceRecord,
    Struct,
)
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.builtin.files.places import FileInfo
from ringfence.connectors.builtin.files.reading import Backlog, FileReading, Marks, Share, bucket_of
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.support.examples import examples
from tests.support.file_runs import Committed, config_of, plain, started, write


@pytest.fixture(autouse=True)
def roots(tmp_path: Path) -> Iterator[None]:
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits((str(tmp_path),), write_roots=(str(tmp_path),)))
    yield
    worker_limits.declare(former)


@pytest.mark.parametrize("format", ["text", "jsonl", "csv", "parquet", "avro"])
def test_a_kill_after_any_batch_neither_loses_nor_doubles(folder: Path, format: str) -> None:
    expected = write(folder, format, 11)
    for batch_size in ("1", "3", "4", "11", "50"):
        config = config_of(folder, format=format, batch_size=batch_size)
        committed = Committed()
        for _ in range(14):
            committed.run(config, polls=1)
        assert plain(committed.values) == expected
        ((_, offset),) = committed.offsets.items()
        assert offset["done"] is True


@given(data=st.binary(max_size=60).map(lambda data: data.replace(b"\x00", b"\n")), batch=st.integers(1, 5))
@settings(max_examples=examples(60))
def test_lines_are_those_of_the_file_as_texts_and_as_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, batch: int
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    worker_limits.declare(WorkerLimits((str(folder),)))
    (folder / "x").write_bytes(data)
    config = config_of(folder, batch_size=str(batch), encoding="latin-1")
    expected = [line.decode("latin-1") for line in data.splitlines()]
    assert Committed().run(config).values == expected
    assert [bytes(line).decode("latin-1") for line in Committed().run(config, raw=True).values] == expected  # type: ignore[call-overload]


def test_many_files_are_read_in_order_each_once_by_any_number_of_tasks(folder: Path) -> None:
    for number in range(40):
        path = folder / f"{number % 3}" / f"f{number:02}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n")
    (folder / ".hidden").write_text("no")
    (folder / "1" / "other.csv").write_text("no")
    committed = Committed()
    for count in (1, 3, 2):  # the number of tasks changes in between
        for index in range(count):
            config = config_of(folder, files_share=f"{index}/{count}", **{"input.file.pattern": r"\d/f\d+\.txt"})
            committed.run(config, polls=7 if count < 3 else 3)
    for index in range(2):
        committed.run(config_of(folder, files_share=f"{index}/2", **{"input.file.pattern": r"\d/f\d+\.txt"}))
    assert sorted(committed.values, key=str) == sorted(map(str, range(40)))


def test_a_changed_file_fails_the_task_or_is_read_anew_or_left(folder: Path) -> None:
    path = folder / "a.txt"
    path.write_text("one\ntwo\n")
    committed = Committed().run(config_of(folder, batch_size="1"), polls=1)
    path.write_text("three\nfour\n")
    with pytest.raises(ConnectorError, match=r"a\.txt has changed.*up to byte 4.*on\.change=read"):
        Committed.run(committed, config_of(folder))
    assert committed.values == ["one"]
    assert Committed.run(committed, config_of(folder, on_change="read")).values == ["one", "three", "four"]
    path.write_text("five\n")
    os.utime(path, ns=(1, 1))
    assert Committed.run(committed, config_of(folder, on_change="ignore")).values == ["one", "three", "four"]


def test_a_changed_file_that_is_left_is_not_deleted(folder: Path) -> None:
    path = folder / "a.txt"
    path.write_text("one\ntwo\n")
    config = config_of(folder, batch_size="1", after="delete", on_change="ignore")
    committed = Committed().run(config, polls=1)
    path.write_text("three\nfour\n")
    assert committed.run(config).values == ["one"]
    assert path.exists()


@pytest.mark.parametrize("change", ["fail", "read", "ignore"])
def test_nothing_of_a_content_that_changes_while_it_is_read_is_mixed(folder: Path, change: str) -> None:
    path = folder / "a.txt"
    path.write_bytes(b"old\n" * 800_000)
    committed = Committed()
    task = started(config_of(folder, on_change=change))
    committed.take(task.poll())
    path.write_bytes(b"new\n" * 3)
    if change == "fail":
        with pytest.raises(ConnectorError, match="has changed"):
            task.poll()
    else:
        for _ in range(5):
            committed.take(task.poll())
    news = committed.values.count("new")
    assert news == (3 if change == "read" else 0)
    assert committed.values[: len(committed.values) - news] == ["old"] * (len(committed.values) - news)


@pytest.mark.parametrize("after", ["delete", "move"])
def test_a_file_goes_only_after_its_last_record_was_committed(folder: Path, tmp_path: Path, after: str) -> None:
    path = folder / "deep" / "a.txt"
    path.parent.mkdir()
    path.write_text("one\ntwo\n")
    config = config_of(folder, after=after, batch_size="1", **{"move.to": f"file://{tmp_path}/done"})
    committed = Committed()
    task = started(config)
    committed.take(task.poll())
    task.commit()
    committed.take(task.poll())
    assert path.exists()  # returned, and not committed yet
    task.stop()
    Committed.run(committed, config)  # a crash came before the commit was told
    assert not path.exists()
    assert (tmp_path / "done/deep/a.txt").exists() is (after == "move")
    assert committed.values == ["one", "two"]
    assert committed.offsets == {}
    path.write_text("three\n")  # a new file of the same name
    assert Committed.run(committed, config).values == ["one", "two", "three"]


def test_a_file_that_took_the_name_of_one_that_was_read_is_not_deleted(folder: Path) -> None:
    path = folder / "a.txt"
    path.write_text("one\n")
    config = config_of(folder, after="delete")
    committed = Committed()
    task = started(config)
    committed.take(task.poll())
    path.write_text("another\n")
    task.commit()
    assert path.read_text() == "another\n"
    while committed.take(task.poll()):
        task.commit()
    assert committed.values == ["one", "another"]
    assert not path.exists()


def test_files_out_of_the_roots_are_neither_read_nor_deleted(folder: Path, tmp_path: Path) -> None:
    worker_limits.declare(WorkerLimits((str(folder),)))
    errors = FilesSourceConnector().validate(config_of(tmp_path))
    assert "not below a folder that connectors may read" in errors["url"][0]
    assert FilesSourceConnector().validate(config_of(folder)) == {}
    errors = FilesSourceConnector().validate(config_of(folder, after="delete"))
    assert "file.write.roots" in errors["url"][0]
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (folder / "link.txt").symlink_to(secret)
    (folder / "links").symlink_to(tmp_path)
    assert Committed().run(config_of(folder)).values == []


def test_a_broken_row_is_told_with_its_place_and_without_data(folder: Path) -> None:
    (folder / "a.csv").write_text("a,b\n1,2\nsecret,2,3\n")
    committed = Committed()
    with pytest.raises(ConnectorError, match=r"File a\.csv, row at byte 8: .* 3 fields.*csv\.ragged") as caught:
        committed.run(config_of(folder, format="csv", batch_size="1"))
    assert "secret" not in str(caught.value)
    assert plain(committed.values) == [{"a": "1", "b": "2"}]
    (folder / "a.csv").unlink()
    (folder / "b.gz").write_bytes(gzip.compress(b"a\n" * 50_000)[:-20])
    committed = Committed()
    with pytest.raises(ConnectorError, match=r"b\.gz cannot be read on from byte .* ends too early"):
        committed.run(config_of(folder))
    assert len(committed.values) > 40_000  # what could be decompressed


def test_a_format_that_counts_otherwise_does_not_take_positions_over(folder: Path) -> None:
    (folder / "a.avro").write_bytes(b"x\ny\n")
    committed = Committed().run(config_of(folder, batch_size="1"), polls=1)
    with pytest.raises(ConnectorError, match="positions of this format count rows"):
        committed.run(config_of(folder, format="avro"))


def test_types_of_parquet_keep_their_meaning(folder: Path) -> None:
    moment = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
    row = {
        "flag": True,
        "price": Decimal("12.50"),
        "day": date(2026, 3, 1),
        "ms": moment.replace(microsecond=123000),
        "us": moment,
        "tags": ["a", None],
        "place": {"x": 1, "at": moment},
        "map": {"k": 2},
        "raw": b"\x00",
        "kind": "red",
    }
    schema = pa.schema(
        [
            ("flag", pa.bool_()),
            ("price", pa.decimal128(9, 2)),
            ("day", pa.date32()),
            ("ms", pa.timestamp("ms", "UTC")),
            ("us", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.string())),
            ("place", pa.struct([("x", pa.int64()), ("at", pa.timestamp("us", "UTC"))])),
            ("map", pa.map_(pa.string(), pa.int32())),
            ("raw", pa.binary()),
            ("kind", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    nulls = dict.fromkeys(row)
    pyarrow.parquet.write_table(pa.Table.from_pylist([row, nulls], schema), folder / "a.parquet")
    first, second = Committed().run(config_of(folder, format="parquet")).values
    assert isinstance(first, Struct)
    assert isinstance(second, Struct)
    micros = int(moment.timestamp()) * 1_000_000 + 123456
    values = dict(zip(first.schema.names, first.values, strict=True))
    place = values.pop("place")
    assert isinstance(place, Struct)
    assert list(place.values) == [1, micros]
    assert values == {**{key: row[key] for key in row if key != "place"}, "us": micros}
    assert set(second.values) == {None}
    assert str(first.schema.fields[4].schema.name) == "io.debezium.time.MicroTimestamp"


def test_types_of_avro_keep_their_meaning(folder: Path) -> None:
    moment = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "long"}]}
    fields = {
        "us": {"type": "long", "logicalType": "timestamp-micros"},
        "price": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        "inner": ["null", inner],
        "again": {"type": "array", "items": "Inner"},
        "kind": {"type": "enum", "name": "Kind", "symbols": ["red"]},
    }
    schema = {"type": "record", "name": "Row", "fields": [{"name": key, "type": each} for key, each in fields.items()]}
    row = {"us": moment, "price": Decimal("1.25"), "inner": {"x": 1}, "again": [{"x": 2}], "kind": "red"}
    with (folder / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [row, {**row, "price": None, "inner": None}])
    first, second = Committed().run(config_of(folder, format="avro")).values
    assert isinstance(first, Struct)
    assert isinstance(second, Struct)
    us, price, inside, again, kind = first.values
    assert (us, price, kind) == (int(moment.timestamp()) * 1_000_000 + 123456, Decimal("1.25"), "red")
    assert isinstance(inside, Struct)
    assert inside.schema == first.schema.fields[2].schema  # optional
    assert plain(again) == [{"x": 2}]  # type: ignore[arg-type]
    assert second.values[1:3] == [None, None]


def test_headers_tell_where_a_record_was(folder: Path) -> None:
    (folder / "a.bz2").write_bytes(bz2.compress(b"one\ntwo"))
    task = started(config_of(folder, file_headers="true"), raw=True)
    polled = task.poll()
    assert not isinstance(polled, RecordBatch)
    assert [record.headers for record in polled or ()] == [
        (("file", f"file://{folder}/a.bz2"), ("position", 4)),
        (("file", f"file://{folder}/a.bz2"), ("position", 7)),
    ]


def test_a_file_is_one_transaction_where_the_connector_says(folder: Path) -> None:
    asked: list[int] = []

    class Transactions:
        def commit_transaction(self, record: SourceRecord | None = None) -> None:
            asked.append(polls)

        def abort_transaction(self, record: SourceRecord | None = None) -> None:
            raise NotImplementedError

    for name in ("a", "b"):
        (folder / name).write_text("1\n2\n3\n")
    (folder / "c").write_text("")
    task = started(config_of(folder, batch_size="2"))
    task.context.transaction_context = Transactions()  # type: ignore[misc]
    polls = 0
    committed = Committed()
    while committed.take(task.poll()):
        polls += 1
    assert asked == [1, 3, 4]


def info(name: str, etag: str = "1") -> FileInfo:
    return FileInfo(name, etag, 0.0)


def test_a_file_waits_until_it_has_stayed_the_same() -> None:
    backlog = Backlog(Share(0, 1), ".*", "name", 10)
    assert backlog.update([info("a")], 0) == []
    assert backlog.update([info("a", "2")], 9) == []
    assert backlog.update([info("a", "2")], 18) == []
    assert backlog.update([info("a", "2")], 19) == [info("a", "2")]
    backlog.close(info("a", "2"))
    assert backlog.update([info("a", "2")], 30) == []
    assert backlog.update([], 31) == []
    assert backlog.update([info("a", "2")], 60) == []  # it was gone: what is known of it has to be looked up again
    assert backlog.update([info("a", "2")], 70) == [info("a", "2")]


names = st.lists(st.integers(0, 60).map(lambda number: f"f{number:03}"), unique=True, max_size=60)


@given(read=names, waiting=names, lookback=st.integers(1, 4))
def test_a_mark_never_passes_what_is_still_to_be_read(read: list[str], waiting: list[str], lookback: int) -> None:
    read = [name for name in read if name not in waiting]
    marks = Marks(lookback, {})
    passed = marks.advance(read, waiting)
    assert not any(map(marks.covers, waiting))
    for bucket, forgotten in passed.items():
        kept = sorted(name for name in read if bucket_of(name) == bucket and name not in forgotten)
        assert len(kept) >= lookback
        assert all(marks.covers(name) for name in forgotten)
        assert not any(marks.covers(name) for name in kept)


def test_offsets_behind_the_mark_are_forgotten_and_their_files_stay_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ringfence.connectors.builtin.files.reading.BUCKETS", 1)
    for number in range(9):
        (folder / f"f{number}").write_text(f"{number}\n")
    config = config_of(folder, lookback_files="2")
    committed = Committed().run(config).run(config)
    assert len(committed.offsets) == 3  # two files and the mark
    (folder / "f9").write_text("9\n")
    committed.run(config).run(config)
    assert committed.values == [str(number) for number in range(10)]
    assert len(committed.offsets) == 3


def test_a_file_that_cannot_be_moved_stays_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To another file system, for example. It is tried again with each listing."""
    target = folder.parent / "done"
    rename = os.rename

    def refuse(source: str, to: str | Path) -> None:
        if Path(to).is_relative_to(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, to)

    (folder / "a.txt").write_bytes(b"a\n")
    config = config_of(folder, after="move", move_to=f"file://{target}")
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        committed = Committed().run(config)
    assert committed.values == ["a"]
    assert [path.name for path in folder.iterdir()] == ["a.txt"]
    committed.run(config)
    assert [path.name for path in target.iterdir()] == ["a.txt"]
    assert committed.values == ["a"]


def test_what_validation_says(folder: Path) -> None:
    connector = FilesSourceConnector()

    def errors(**more: str) -> dict[str, list[str]]:
        return {key: list(each) for key, each in connector.validate(config_of(folder, **more)).items()}

    assert errors() == {}
    assert "must begin with one of file://, s3://, gs://, abfs://, sftp://" in errors(url="in")["url"][0]
    assert "is not a folder" in errors(url=f"file://{folder}/none")["url"][0]
    assert "move.to" in errors(after="move")
    assert "read again" in errors(after="move", **{"move.to": f"file://{folder}/done"})["move.to"][0]
    assert "lookback.files" in errors(lookback_files="5", order="modified")
    assert "Set both" in errors(**{"s3.access.key": "x"})["s3.secret.key"][0]
    assert "not allowed" in errors(url="s3://bucket", **{"s3.endpoint.url": "http://127.0.0.1:1"})["url"][0]
    assert "not allowed" in errors(url="s3://bucket", **{"s3.endpoint.url": "http://169.254.169.254"})["url"][0]


def test_offsets_by_hand_are_checked() -> None:
    connector = FilesSourceConnector()
    good = {"url": "file:///in/a"}
    assert connector.alter_offsets({}, [(good, {"etag": "1", "byte": 5}), (good, None)])
    for bad in ({"etag": "1"}, {"byte": 5}, {"etag": "1", "byte": -1}, {"etag": "1", "byte": 1, "row": 1}):
        with pytest.raises(ConnectorError, match="must have a string"):
            connector.alter_offsets({}, [(good, bad)])
    with pytest.raises(ConnectorError, match="must name a file"):
        connector.alter_offsets({}, [({}, None)])


def test_an_outage_is_waited_for_and_reading_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a").write_text("1\n2\n3\n")
    task = started(config_of(folder, batch_size="1"))
    committed = Committed()
    committed.take(task.poll())
    with monkeypatch.context() as patch:
        patch.setattr(FileReading, "read", lambda *_: (_ for _ in ()).throw(OSError("away")))
        with pytest.raises(RetriableError, match="away"):
            task.poll()
    while committed.take(task.poll()):
        pass
    assert committed.values == ["1", "2", "3"]
