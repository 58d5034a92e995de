"""A share-partition's states, in memory and as they are persisted: the KIP's own table, then random operations."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.share.share_partition import state_topic
from ringfence.fencing.share.share_partition.state_machine import (
    Acknowledgement,
    Answer,
    Batch,
    Batches,
    Change,
    InvalidTransition,
    RecordState,
    SharePartition,
    fill,
    merge,
    overlay,
)
from ringfence.fencing.share.share_partition.state_topic import (
    Entry,
    PersistedState,
    ShareSnapshot,
    ShareUpdate,
    StateKey,
    StateRecord,
    StateTable,
    find_first_needed,
)
from tests.support import share_control_records as control_records
from tests.support.share_control_records import (
    BrokenChain,
    ControlRecord,
    Recorder,
    ShareCheckpoint,
    ShareDelta,
    find_cleanable,
)

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState
GAP, ACCEPT, RELEASE, REJECT = Acknowledgement
KEY = StateKey("G1", "AAAAAAAAAAAAAAAAAAAAAQ", 0)


def answer(kind: Acknowledgement, first: int, last: int | None = None) -> list[Answer]:
    return [Answer(first, first if last is None else last, kind)]


class Kip:
    """The text's table, "SHARE_DELTA": operations, and the control records that it shows for them, from offset 130."""

    def __init__(self) -> None:
        self.partition = SharePartition.begin(100, lock_s=30)
        self.recorder, first = Recorder("G1").checkpoint(self.partition, 130)
        self.log: dict[int, ControlRecord] = {130: first}

    def take(self, change: Change) -> Batches:
        self.partition = change.partition
        offset = max(self.log) + 1
        self.recorder, self.log[offset] = self.recorder.delta(change, offset)
        return self.log[offset].states

    def cumulative(self) -> tuple[int, int, list[tuple[int, int, RecordState, int]]]:
        known = [(one.first, one.last, one.state, one.delivery_count) for one in self.partition.batches]
        return self.partition.start, self.partition.end, known


def test_the_table_of_the_kip() -> None:
    """Its first checkpoint says 110, where its own state says 100: an error of the text, which starts at 100 here."""
    kip = Kip()
    assert kip.log[130] == ShareCheckpoint("G1", 1, 100, 100, ())
    kip.partition = kip.partition.acquire(100, 109, "A")
    assert kip.cumulative() == (100, 110, [(100, 109, ACQUIRED, 1)])
    kip.take(kip.partition.acknowledge("A", answer(ACCEPT, 100, 109)))
    assert kip.log[131] == ShareDelta("G1", 1, 130, (Batch(100, 109, ACKNOWLEDGED, 1),))
    assert kip.cumulative() == (110, 110, [])
    kip.partition = kip.partition.acquire(110, 119, "A", now=10)
    kip.take(kip.partition.acknowledge("A", answer(RELEASE, 110)))
    assert kip.log[132] == ShareDelta("G1", 1, 131, (Batch(110, 110, AVAILABLE, 1),))
    assert kip.cumulative() == (110, 120, [(110, 110, AVAILABLE, 1), (111, 119, ACQUIRED, 1)])
    kip.take(kip.partition.acknowledge("A", answer(ACCEPT, 119)))
    assert kip.log[133] == ShareDelta("G1", 1, 132, (Batch(111, 118, AVAILABLE, 0), Batch(119, 119, ACKNOWLEDGED, 1)))
    kip.partition = kip.partition.acquire(110, 110, "B", now=20).acquire(120, 120, "B", now=20)
    assert kip.cumulative() == (
        110,
        121,
        [(110, 110, ACQUIRED, 2), (111, 118, ACQUIRED, 1), (119, 119, ACKNOWLEDGED, 1), (120, 120, ACQUIRED, 1)],
    )
    kip.partition = kip.partition.renew("A", 113, 118, 20)
    kip.take(kip.partition.expire(40))
    assert kip.log[134] == ShareDelta("G1", 1, 133, (Batch(111, 112, AVAILABLE, 1),))
    kip.take(kip.partition.acknowledge("A", answer(ACCEPT, 113, 118)))
    assert kip.log[135] == ShareDelta("G1", 1, 134, (Batch(113, 118, ACKNOWLEDGED, 1),))
    kip.partition = kip.partition.acquire(111, 112, "A", now=40)
    kip.take(kip.partition.acknowledge("B", answer(ACCEPT, 110)))
    assert kip.log[136] == ShareDelta("G1", 1, 135, (Batch(110, 110, ACKNOWLEDGED, 2),))
    assert kip.cumulative() == (
        111,
        121,
        [(111, 112, ACQUIRED, 2), (113, 119, ACKNOWLEDGED, 1), (120, 120, ACQUIRED, 1)],
    )
    change = kip.partition.acknowledge("A", answer(ACCEPT, 111, 112))
    _, checkpoint = kip.recorder.checkpoint(change.partition, 137)
    assert checkpoint == ShareCheckpoint("G1", 2, 120, 120, ())
    kip.take(change)
    assert kip.log[137] == ShareDelta("G1", 1, 136, (Batch(111, 112, ACKNOWLEDGED, 2),))
    assert kip.cumulative() == (120, 121, [(120, 120, ACQUIRED, 1)])
    recovered = control_records.recover(kip.log, 137)
    assert (recovered.start, recovered.end, recovered.batches) == (120, 120, ())
    before = control_records.recover(kip.log, 134)
    assert before.batches == (
        Batch(110, 112, AVAILABLE, 1),
        Batch(113, 118, AVAILABLE, 0),
        Batch(119, 119, ACKNOWLEDGED, 1),
    )


@dataclass
class Plain:
    """The same rules offset by offset: what the ranges are held against."""

    start: int = 0
    end: int = 0
    limit: int = 2
    records: dict[int, tuple[RecordState, int, str, float]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)

    def end_one(self, offset: int, kind: Acknowledgement) -> None:
        _, count, _, _ = self.records[offset]
        state = {ACCEPT: ACKNOWLEDGED, REJECT: ARCHIVED, GAP: ARCHIVED}.get(
            kind, ARCHIVED if count >= self.limit else AVAILABLE
        )
        self.records[offset] = (state, count, "", 0.0)

    def advance(self) -> None:
        while self.start < self.end and self.records[self.start][0].terminal:
            del self.records[self.start]
            self.start += 1


def spread(batches: Batches) -> dict[int, tuple[RecordState, int, str, float]]:
    return {
        offset: (one.state, one.delivery_count, one.member, one.locked_until)
        for one in batches
        for offset in range(one.first, one.last + 1)
    }


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["acquire", "acquire", "aborted", "accept", "release", "reject", "gap", "expire", "leave"]),
        st.sampled_from(["A", "B"]),
        st.integers(0, 12),
        st.integers(0, 5),
    ),
    max_size=40,
)


def aim(partition: SharePartition, name: str, at: int, more: int) -> tuple[int, int]:
    """Mostly a range that is in the state for it, now and then any."""
    wanted = AVAILABLE if name in ("acquire", "aborted") else ACQUIRED
    fitting = [one for one in partition.batches if one.state is wanted]
    if at % 6 == 5 or not fitting:
        first = min(partition.start + at, partition.end)
        return first, first + more
    one = fitting[at % len(fitting)]
    return min(one.first + at % 3, one.last), min(one.first + at % 3 + more, one.last)


def run(operations: list[tuple[str, str, int, int]]) -> Iterator[tuple[SharePartition, Change | None, Plain]]:  # noqa: C901 - a case for each operation
    """Operations that a broker would do; those that it would refuse change nothing."""
    partition, plain, now = SharePartition.begin(0, delivery_limit=2, lock_s=2), Plain(), 0.0
    for name, member, at, more in operations:
        now += 0.5
        first, last = aim(partition, name, at, more)
        change: Change | None = None
        if name in ("acquire", "aborted"):
            if any(plain.records.get(one, (AVAILABLE,))[0] is not AVAILABLE for one in range(first, last + 1)):
                with pytest.raises(InvalidTransition):
                    partition.acquire(first, last, member, now)
                continue
            # Of an aborted transaction is what nobody was given yet: the second half of the range.
            known = {one for one in range(first, last + 1) if one in plain.records}
            hidden = set(range((first + last) // 2, last + 1)) - known if name == "aborted" else set()
            partition = partition.acquire(first, last, member, now, [(one, one) for one in hidden])
            plain.aborted |= hidden
            for one in range(first, last + 1):
                count = plain.records[one][1] if one in plain.records else 0
                plain.records[one] = (ACQUIRED, count + 1, member, now + 2)
                if one in hidden:
                    plain.records[one] = (ARCHIVED, 1, "", 0.0)
            plain.end = max(plain.end, last + 1)
        elif name in ("expire", "leave"):
            change = partition.expire(now) if name == "expire" else partition.leave(member)
            for one, (state, _, holder, until) in list(plain.records.items()):
                if state is ACQUIRED and (until <= now if name == "expire" else holder == member):
                    plain.end_one(one, RELEASE)
        else:
            kind = Acknowledgement[name.upper()]
            held = [plain.records.get(one) for one in range(first, last + 1)]
            if any(one is None or one[0] is not ACQUIRED or one[2] != member for one in held):
                with pytest.raises(InvalidTransition):
                    partition.acknowledge(member, answer(kind, first, last))
                continue
            change = partition.acknowledge(member, answer(kind, first, last))
            for one in range(first, last + 1):
                plain.end_one(one, kind)
        if change is not None:
            complete = sum(1 for state, *_ in plain.records.values() if state.terminal)
            assert change.delivery_complete_count == complete
            assert change.start_offset == partition.start
            partition = change.partition
            plain.advance()  # what was aborted at the start waits for the next change
        yield partition, change, plain


def fold(plain: Plain, end: int) -> dict[int, tuple[RecordState, int]]:
    """As it may be persisted: deliveries that are not over are not counted."""
    return {
        offset: (AVAILABLE, 0)
        if offset in plain.aborted
        else (AVAILABLE, count - 1)
        if state is ACQUIRED
        else (state, count)
        for offset, (state, count, *_) in plain.records.items()
        if offset < end
    }


def find_from_start(recovered: SharePartition, plain: Plain) -> dict[int, tuple[RecordState, int]]:
    """What was recovered; before the start there may be what was aborted, which is read and archived again."""
    found = {at: (state, count) for at, (state, count, *_) in spread(recovered.batches).items()}
    again = {at for at, (state, _) in found.items() if at < plain.start and not state.terminal}
    again |= set(range(recovered.end, plain.start))
    assert again <= plain.aborted
    assert recovered.start == min({*again, plain.start})
    return {at: said for at, said in found.items() if at >= plain.start}


@given(OPERATIONS)
def test_ranges_go_through_the_states_of_their_offsets(operations: list[tuple[str, str, int, int]]) -> None:
    for partition, _, plain in run(operations):
        assert (partition.start, partition.end) == (plain.start, plain.end)
        assert spread(partition.batches) == plain.records
        assert all(one.last < two.first for one, two in zip(partition.batches, partition.batches[1:], strict=False))


@given(OPERATIONS, st.integers(1, 7))
def test_a_state_is_recovered_from_control_records(operations: list[tuple[str, str, int, int]], every: int) -> None:
    """From the newest checkpoint alone: what is before it was cleaned away."""
    recorder, record = Recorder("G1").checkpoint(SharePartition.begin(0), 0)
    log: dict[int, ControlRecord] = {0: record}
    for partition, change, plain in run(operations):
        if change is None or not change.writes:
            continue
        offset = max(log) + 3
        if offset % every == 0:
            recorder, log[offset] = recorder.checkpoint(partition, offset)
        else:
            recorder, log[offset] = recorder.delta(change, offset)
        for gone in find_cleanable(log, ["G1"]):
            del log[gone]
        recovered = control_records.recover(log, offset, 2)
        expected = fold(plain, recorder.end)
        assert find_from_start(recovered, plain) == expected
        assert all(said == (AVAILABLE, 0) for at, said in fold(plain, plain.end).items() if at >= recovered.end)


@given(OPERATIONS, st.integers(0, 6))
def test_a_state_is_recovered_from_the_state_topic(operations: list[tuple[str, str, int, int]], limit: int) -> None:
    """Through the bytes, and after everything that is not needed any more is gone."""
    state = PersistedState(0, 1, 0, 0)
    entries = [Entry(0, 0, KEY, ShareSnapshot(0, 1, 0, 0, 0))]
    for _, change, plain in run(operations):
        if change is None or not change.writes:
            continue
        record = state_topic.write(state, change, 0, limit=limit)
        entry = state_topic.read(entries[-1].offset + 1, 0, *state_topic.encode(KEY, record))
        assert entry is not None
        entries = [one for one in [*entries, entry] if one.offset >= (find_first_needed([*entries, entry]) or 0)]
        table = StateTable()
        for one in entries:
            table.take(one)
        state = table.states[KEY]
        partition = state.partition
        assert find_from_start(partition, plain) == fold(plain, partition.end)
        assert state.delivery_complete_count == change.delivery_complete_count
        assert state.updates <= limit


def test_a_chain_that_does_not_lead_to_its_checkpoint_is_refused() -> None:
    released = (Batch(0, 0, AVAILABLE, 1),)
    log: dict[int, ControlRecord] = {
        5: ShareCheckpoint("G1", 1, 0, 0),
        6: ShareDelta("G1", 1, 5, released),
        7: ShareDelta("G1", 2, 6, released),
        8: ShareDelta("G1", 1, 4, released),
        9: ShareDelta("G2", 1, 6, released),
        10: ShareDelta("G1", 1, 10, released),
    }
    assert control_records.recover(log, 6).batches == released
    for newest in (7, 8, 9, 10):
        with pytest.raises(BrokenChain):
            control_records.recover(log, newest)


def test_control_records_are_needed_from_the_earliest_checkpoint_of_all_groups() -> None:
    log: dict[int, ControlRecord] = {
        3: ShareCheckpoint("G1", 1, 0, 0),
        4: ShareDelta("G1", 1, 3, ()),
        5: ShareCheckpoint("G2", 1, 0, 0),
        6: ShareCheckpoint("G1", 2, 0, 0),
    }
    assert find_cleanable(log, ["G1", "G2"]) == [3, 4]
    assert find_cleanable(log, ["G1", "G2", "G3"]) == []


def test_a_deleted_state_is_gone_and_a_younger_one_begins_where_it_says() -> None:
    table = StateTable()
    table.take(Entry(0, 0, KEY, ShareSnapshot(0, 0, 0, 0, 0, (Batch(5, 6, ARCHIVED, 2),))))
    assert [one.first for one in table.states[KEY].find_archived(2)] == [5]
    assert table.states[KEY].find_archived(3) == ()
    assert table.states[KEY].strip() == (Batch(0, 4), Batch(5, 6, ARCHIVED, 2))
    table.take(Entry(1, 0, KEY, None))
    assert table.of_group("G1") == {}
    table.take(Entry(2, 0, KEY, ShareSnapshot(0, 1, 0, 40, 0)))
    table.take(Entry(3, 0, KEY, ShareUpdate(0, -1, -1, 0, (Batch(40, 41, ACKNOWLEDGED, 1),))))
    state = table.of_group("G1")[KEY]
    assert (state.state_epoch, state.start_offset, state.partition.start) == (1, 40, 42)
    assert find_first_needed([]) is None


def test_bytes_that_a_broker_wrote() -> None:
    """A ShareUpdate as 4.3.0 lays it out: group "share-1", partition 0, offsets 100-109 acknowledged at once."""
    key = bytes.fromhex("000100077368617265 2d31".replace(" ", "")) + bytes(15) + b"\x01" + bytes(4)
    batch = struct.pack(">qqbhb", 100, 109, 2, 1, 0)
    value = struct.pack(">hiiq", 0, 3, 7, 100) + b"\x02" + batch + b"\x01\x00\x04" + struct.pack(">i", 10)
    found = state_topic.decode(key, value)
    expected: StateRecord = ShareUpdate(3, 7, 100, 10, (Batch(100, 109, ACKNOWLEDGED, 1),))
    assert found == (StateKey("share-1", "AAAAAAAAAAAAAAAAAAAAAQ", 0), expected)
    assert state_topic.encode(*found) == (key, value)
    assert state_topic.decode(b"\x00\x09", b"") is None
    with pytest.raises(ValueError, match="__share_group_state"):
        state_topic.decode(key[:-3], value)


def test_the_coordinator_keeps_the_greater_count_and_a_leader_the_newer_word() -> None:
    old = (Batch(0, 9, AVAILABLE, 2),)
    assert merge(old, [Batch(3, 4, ACKNOWLEDGED, 1)]) == old
    assert merge(old, [Batch(3, 12, ACKNOWLEDGED, 2)]) == (Batch(0, 2, AVAILABLE, 2), Batch(3, 12, ACKNOWLEDGED, 2))
    assert overlay(old, [Batch(3, 4, ACKNOWLEDGED, 1)])[1] == Batch(3, 4, ACKNOWLEDGED, 1)
    assert fill((Batch(2, 3, ARCHIVED, 5),), 0, 5) == (Batch(0, 1), Batch(2, 3, ARCHIVED, 5), Batch(4, 5))


def test_a_recovered_leader_goes_no_further_than_it_has_read_again() -> None:
    """As a broker that had forgotten aborted records did, offset by offset."""
    persisted = [
        Batch(45, 45, AVAILABLE, 1),
        Batch(46, 47, ACKNOWLEDGED, 1),
        Batch(50, 50, ARCHIVED, 1),
        Batch(51, 51, AVAILABLE, 1),
        Batch(57, 57, ARCHIVED, 1),
    ]
    partition = SharePartition.recover(45, persisted)
    assert (partition.start, partition.end, partition.gap) == (45, 58, 48)
    partition = partition.acquire(45, 45, "A").acquire(48, 49, "A", aborted_ranges=[(48, 49)])
    partition = partition.acquire(51, 51, "A").acquire(52, 56, "A", aborted_ranges=[(52, 56)])
    change = partition.acknowledge("A", [*answer(ACCEPT, 45), *answer(ACCEPT, 51)])
    assert (change.start_offset, change.delivery_complete_count) == (45, 13)
    assert (change.partition.start, change.partition.batches) == (57, (Batch(57, 57, ARCHIVED, 1),))
    change = change.partition.acquire(58, 60, "A").acknowledge("A", answer(ACCEPT, 58))
    assert (change.start_offset, change.delivery_complete_count, change.partition.start) == (57, 2, 59)
