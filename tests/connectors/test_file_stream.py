import logging
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import ConnectorError, ExactlyOnceSupport, RecordBatch
from ringfence.connectors.builtin.file_stream import task as task_module
from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.connectors.builtin.file_stream.line_splitting import LineBuffer
from ringfence.connectors.builtin.file_stream.task import FileStreamSourceTask
from tests.connectors.fakes import FakeContext, FakeOffsets, poll_all

texts = st.lists(
    st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\xff", b"\xe2\x82", "ü€".encode()]), max_size=40
).map(b"".join)


def whole_lines(data: bytes) -> list[tuple[bytes, int]]:
    """The plain truth, a byte at a time: each whole line, and the position after its end."""
    found, start, at = [], 0, 0
    while at < len(data):
        if data[at : at + 1] == b"\r" and at + 1 == len(data):
            break  # an LF may follow
        width = 2 if data[at : at + 2] == b"\r\n" else 1
        if data[at : at + 1] in (b"\n", b"\r"):
            found.append((data[start:at], at + width))
            start = at + width
        at += width
    return found


def started(
    path: Path, position: int | None = None, *, raw: bool = False, batch_size: int = 2000
) -> FileStreamSourceTask:
    task = FileStreamSourceTask()
    known = [] if position is None else [({"filename": str(path)}, {"position": position})]
    task.context = FakeContext(FakeOffsets(known), raw=raw)
    task.start({"file": str(path), "topic": "lines", "batch.size": str(batch_size)})
    return task


@given(texts, st.lists(st.integers(0, 200), max_size=6), st.integers(1, 7))
def test_lines_and_positions_do_not_depend_on_how_the_chunks_fall(data: bytes, cuts: list[int], take: int) -> None:
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for with_positions in (False, True):
        buffer, found = LineBuffer(), []
        for start, end in pairwise(borders):
            buffer.feed(data[start:end])
            while len(buffer) > take:
                found += (
                    list(zip(*buffer.take_with_positions(take), strict=True)) if with_positions else _taken(buffer, 1)
                )
        while len(buffer):
            found += list(zip(*buffer.take_with_positions(take), strict=True)) if with_positions else _taken(buffer, 1)
        assert found == whole_lines(data)


def _taken(buffer: LineBuffer, count: int) -> list[tuple[bytes, int]]:
    (line,) = buffer.take(count)
    return [(line, buffer.position)]


@given(data=texts, chunk=st.integers(1, 9), batch_size=st.integers(1, 5))
def test_a_restart_from_each_position_gives_exactly_the_rest(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, chunk: int, batch_size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "restarted.txt"
    path.write_bytes(data)
    expected = whole_lines(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "CHUNK_BYTES", chunk)
        for done in range(len(expected) + 1):
            position = expected[done - 1][1] if done else None
            single = started(path, position, batch_size=batch_size)
            raw = started(path, position, raw=True, batch_size=batch_size)
            assert [
                (str(value).encode("utf-8", "surrogateescape"), offset["position"])
                for value, offset in poll_all(single)
            ] == expected[done:]
            assert [value for value, _ in poll_all(raw)] == [line for line, _ in expected[done:]]
            single.stop()
            raw.stop()


def test_a_batch_carries_the_position_after_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\r\ntwo\nthree\nfour\nfi")
    task = started(path, raw=True, batch_size=3)
    first, second = task.poll(), task.poll()
    assert isinstance(first, RecordBatch)
    assert isinstance(second, RecordBatch)
    assert (first.values, first.source_offset) == ([b"one", b"two", b"three"], {"position": 15})
    assert (second.values, second.source_offset) == ([b"four"], {"position": 20})
    assert first.source_partition == {"filename": str(path)}


def test_batches_are_full_while_there_is_more_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "CHUNK_BYTES", 100)
    path = tmp_path / "lines.txt"
    path.write_bytes(b"123456789\n" * 100)
    task = started(path, raw=True, batch_size=33)
    assert [len(task.poll() or []) for _ in range(4)] == [33, 33, 33, 1]


def test_a_growing_file_is_followed_and_a_partial_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "growing.txt"
    path.write_bytes(b"first\nsec")
    task = started(path)
    assert [value for value, _ in poll_all(task)] == ["first"]
    with path.open("ab") as file:
        file.write(b"ond\nthird\n")
    assert poll_all(task) == [("second", {"position": 13}), ("third", {"position": 19})]
    assert task.poll() is None


def test_a_file_that_does_not_grow_is_looked_at_less_often_until_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "idle.txt"
    path.write_bytes(b"first\n")
    task = started(path)
    assert isinstance(task.context, FakeContext)
    pauses = task.context.waits
    assert task.poll()
    for _ in range(20):
        assert task.poll() is None
    assert pauses[0] == task_module.IDLE_SECONDS
    assert all(before < after for before, after in pairwise(pauses[:9]))
    assert pauses[-1] == task_module.MOST_IDLE_SECONDS
    with path.open("ab") as file:
        file.write(b"second\n")
    assert task.poll()
    assert task.poll() is None
    assert pauses[-1] == task_module.IDLE_SECONDS


def test_an_empty_line_is_a_record(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(b"\n\na\n")
    assert [value for value, _ in poll_all(started(path))] == ["", "", "a"]


def test_a_line_longer_than_many_chunks_arrives_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "CHUNK_BYTES", 1000)
    path = tmp_path / "long.txt"
    path.write_bytes(b"x" * 1_000_000 + b"\nend\n")
    assert [value for value, _ in poll_all(started(path, raw=True))] == [b"x" * 1_000_000, b"end"]


def test_a_file_that_was_cut_short_fails_the_task(tmp_path: Path) -> None:
    path = tmp_path / "cut.txt"
    path.write_bytes(b"first\nsecond\n")
    task = started(path)
    poll_all(task)
    os.truncate(path, 3)
    with pytest.raises(ConnectorError, match=r"has 3 bytes, but was read up to byte 13.*reset its offsets"):
        task.poll()
    with pytest.raises(ConnectorError, match="truncated or replaced"):
        started(path, 13)


def test_a_file_that_was_replaced_or_removed_fails_the_task(tmp_path: Path) -> None:
    path = tmp_path / "rotated.txt"
    path.write_bytes(b"first\n")
    task = started(path)
    poll_all(task)
    (tmp_path / "new.txt").write_bytes(b"other\nfile\n")
    (tmp_path / "new.txt").rename(path)
    with pytest.raises(ConnectorError, match="was replaced by another file"):
        task.poll()
    path.unlink()
    with pytest.raises(ConnectorError, match="is gone"):
        task.poll()


def test_a_missing_file_fails_the_start_with_a_remedy_and_stop_still_works(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"does not exist\. Create it"):
        started(tmp_path / "missing.txt")
    FileStreamSourceTask().stop()


@pytest.mark.parametrize("position", [-1, "12", 1.5, True, None])
def test_a_foreign_offset_is_refused(tmp_path: Path, position: object) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\n")
    task = FileStreamSourceTask()
    task.context = FakeContext(FakeOffsets([({"filename": str(path)}, {"position": position})]))
    with pytest.raises(ConnectorError, match="alter or reset its offsets"):
        task.start({"file": str(path), "topic": "t"})


def test_validation_looks_at_the_file(tmp_path: Path) -> None:
    connector, path = FileStreamSourceConnector(), tmp_path / "there.txt"
    path.write_text("")
    assert connector.validate({"file": str(path)}) == {}
    assert "does not exist" in connector.validate({"file": str(tmp_path / "missing")})["file"][0]
    assert "not a regular file" in connector.validate({"file": str(tmp_path)})["file"][0]
    assert "is not a path" in connector.validate({"file": "a\0b"})["file"][0]
    os.mkfifo(tmp_path / "fifo")
    assert "not a regular file" in connector.validate({"file": str(tmp_path / "fifo")})["file"][0]


def test_one_task_whatever_tasks_max_says() -> None:
    connector = FileStreamSourceConnector()
    connector.start({"file": "f", "topic": "t"})
    assert connector.task_configs(5) == [{"file": "f", "topic": "t"}]
    assert connector.exactly_once_support({"file": "f"}) is ExactlyOnceSupport.SUPPORTED


def test_offsets_by_hand_are_checked_and_deletions_always_pass() -> None:
    alter = FileStreamSourceConnector().alter_offsets
    config = {"file": "f", "topic": "t"}
    assert alter(config, [({"filename": "f"}, {"position": 0}), ({"odd": 1}, None)])
    for partition, offset in (({"filename": "f"}, {"position": -1}), ({"filename": "f"}, {}), ({}, {"position": 1})):
        with pytest.raises(ConnectorError, match="must"):
            alter(config, [(partition, offset)])


def test_starting_says_where_it_reads_from(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\nb\n")
    with caplog.at_level(logging.INFO):
        started(path, 2)
    assert "from byte 2 of 4 on" in caplog.text
