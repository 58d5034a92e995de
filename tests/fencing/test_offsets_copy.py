"""The copy in the worker's topic: newest wins, failures are told and repeated, tombstones come first or not at all."""

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.alteration import records_to_migrate
from ringfence.fencing.offsets.source_offsets import (
    Offset,
    SourceOffset,
    SourceOffsets,
    canonical,
    encode_key,
    encode_value,
)
from ringfence.fencing.offsets.stores import OffsetsCopy
from tests.support.waiting import eventually

C = ConnectorName("c")
A, B = {"file": "a"}, {"file": "b"}


class Writer:
    """Takes records, or fails for as long as it is told to; can be held."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, bytes | None]] = []
        self.failing = 0
        self.free = threading.Event()
        self.free.set()
        self.entered = threading.Event()

    def write(
        self, topic: str, records: Sequence[tuple[bytes, bytes | None]], deadline: Deadline, last: object = ()
    ) -> None:
        self.entered.set()
        assert self.free.wait(30)
        if self.failing:
            self.failing -= 1
            raise Retriable("not now")
        self.written += records

    def close(self) -> None:
        """Nothing is queued."""


def record(partition: Mapping[str, object], at: int | None) -> tuple[bytes, bytes | None]:
    return encode_key(C, partition), encode_value(None if at is None else {"at": at})


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def copy(writer: Writer, told: list[str]) -> Iterator[OffsetsCopy]:
    made = OffsetsCopy(lambda: writer, "workers", SourceOffsets(C), told.append)
    yield made
    writer.free.set()
    made.close()


def test_what_came_meanwhile_is_copied_once_with_the_newest_offset(copy: OffsetsCopy, writer: Writer) -> None:
    writer.free.clear()
    copy.after([(A, {"at": 1})])
    assert writer.entered.wait(30)
    for at in range(2, 50):
        copy.after([(A, {"at": at}), (B, {"at": at})])
    writer.free.set()
    copy.close()
    assert writer.written == [record(A, 1), record(A, 49), record(B, 49)]


def test_a_failed_copy_is_told_and_written_later_unless_a_newer_one_came(
    copy: OffsetsCopy, writer: Writer, told: list[str]
) -> None:
    writer.failing = 1
    copy.after([(A, {"at": 1}), (B, {"at": 1})])
    eventually(lambda: told, 30, "the failure is told")
    copy.after([(A, {"at": 2})])
    eventually(lambda: len(writer.written) == 2, 30, "the second try")
    assert sorted(writer.written, key=str) == [record(A, 2), record(B, 1)]
    assert "The task continues" in told[0]


def test_the_thread_ends_although_nothing_can_be_written(copy: OffsetsCopy, writer: Writer) -> None:
    writer.failing = 10_000
    copy.after([(A, {"at": 1})])
    copy.close(1)
    eventually(lambda: not copy._thread.is_alive(), describe="the end of the thread")


def test_a_tombstone_waits_for_older_copies_and_replaces_those_that_are_due(copy: OffsetsCopy, writer: Writer) -> None:
    writer.free.clear()
    copy.after([(A, {"at": 1})])
    assert writer.entered.wait(30)
    copy.after([(A, {"at": 2}), (B, {"at": 2})])
    deleting = threading.Thread(target=copy.before, args=([(A, None), (B, {"at": 3})],))
    deleting.start()
    writer.free.set()
    deleting.join(30)
    copy.close()
    assert [value for key, value in writer.written if key == encode_key(C, A)][-1] is None
    assert writer.written[-1] in (record(B, 2), record(A, None))


def test_a_tombstone_that_cannot_be_written_is_raised(copy: OffsetsCopy, writer: Writer) -> None:
    writer.failing = 1
    with pytest.raises(Retriable):
        copy.before([(A, None)])
    copy.before([(A, {"at": 1})])  # nothing to delete
    assert writer.written == []


def offsets(gaps: SourceOffsets | None = None, **at: int | None) -> SourceOffsets:
    found = SourceOffsets(C, gaps)
    for name, value in at.items():
        partition = {"file": name}
        offset: Offset | None = None if value is None else {"at": value}
        found._by_partition[canonical(partition)] = SourceOffset(partition, offset, encode_key(C, partition))
    return found


def test_the_own_topic_speaks_first_its_tombstones_too_and_the_workers_fills_the_gaps() -> None:
    merged = offsets(offsets(a=1, b=1, c=1), b=2, c=None, d=4)
    assert merged.offsets([{"file": name} for name in "abcde"]) == [{"at": 1}, {"at": 2}, None, {"at": 4}, None]
    assert {each.partition["file"] for each in merged.present()} == {"a", "b", "d"}


def test_carrying_makes_the_new_topic_say_what_the_merged_old_ones_say() -> None:
    old = offsets(offsets(a=1, b=1, c=1), b=2, c=None)
    new = offsets(offsets(a=1, b=1, c=1), b=9, e=5)
    assert sorted(records_to_migrate(old, new), key=str) == [
        record(A, 1),
        record(B, 2),
        record({"file": "c"}, None),
        record({"file": "e"}, None),
    ]
    assert records_to_migrate(old, offsets(offsets(c=1), a=1, b=2, c=None)) == []
    assert records_to_migrate(offsets(), offsets()) == []
    assert records_to_migrate(offsets(a=3), offsets(a=1)) == [record(A, 3)]  # back to the worker's
