"""The ledger's records, its folding, and one slot's claims: no broker."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.ledger_keys import InputPartition, log_partition_of, parse_partition, partition_key
from ringfence.fencing.offsets.source_offsets import SourceOffset, encode_key, encode_value
from ringfence.fencing.share.group_moves import expand, merge
from ringfence.fencing.share.ledger import Claim, Ledger, ProcessedOffsets, State, claim_key, encode_claim, encode_state
from ringfence.fencing.share.offset_ranges import Ranges

QUEUE = ConnectorName("queue")
TP = InputPartition("id-of-topic", 0)
OTHER = InputPartition("id-of-topic", 1)


def claim(ledger: Ledger, producer: int, at: int, slot: int, *pairs: tuple[int, int]) -> None:
    value = encode_claim(Claim(slot, {TP: Ranges(pairs)}))
    ledger.take(producer, at, claim_key(QUEUE, slot), value)


def state(ledger: Ledger, producer: int, slot: int, low: int, *pairs: tuple[int, int]) -> None:
    key = encode_key(QUEUE, partition_key(TP, slot))
    ledger.take(producer, 0, key, encode_value(encode_state(State("in", low, Ranges(pairs)))))


def wanted(*pairs: tuple[int, int]) -> dict[InputPartition, Ranges]:
    return {TP: Ranges(pairs)}


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=20), st.integers(0, 50))
def test_ranges_are_a_set(pairs: list[tuple[int, int]], cut: int) -> None:
    ranges, plain = Ranges(), set[int]()
    for first, more in pairs:
        ranges.add(first, first + more)
        plain.update(range(first, first + more + 1))
    assert {offset for first, last in ranges for offset in range(first, last + 1)} == plain
    assert ranges.size == len(plain)
    assert all(last + 1 < first for (_, last), (first, _) in zip(list(ranges), list(ranges)[1:], strict=False))
    gone = {offset for first, last in ranges.missing(0, 60) for offset in range(first, last + 1)}
    assert gone == set(range(61)) - plain
    assert ranges.first_missing(cut) == next(offset for offset in range(cut, 100) if offset not in plain)
    ranges.drop_below(cut)
    assert ranges == Ranges([(offset, offset) for offset in plain if offset >= cut])


def test_an_undecided_earlier_claim_is_in_the_way_and_a_later_one_is_not() -> None:
    ledger = Ledger(QUEUE)
    claim(ledger, 7, 10, 1, (0, 9))
    assert ledger.find_rivals(wanted((5, 12)), 11).open_slots == {1}
    assert ledger.find_rivals(wanted((5, 12)), 10).open_slots == set()
    assert ledger.find_rivals(wanted((10, 12)), 11).open_slots == set()


def test_only_the_marker_decides() -> None:
    ledger = Ledger(QUEUE)
    claim(ledger, 7, 10, 1, (0, 9))
    state(ledger, 7, 1, 0, (0, 9))
    assert ledger.state(TP) is None
    assert not ledger.find_rivals(wanted((5, 5)), 20).committed
    ledger.decide(7, committed=True)
    assert ledger.find_rivals(wanted((5, 5)), 20).committed
    claim(ledger, 8, 30, 2, (20, 29))
    state(ledger, 8, 2, 0, (20, 29))
    ledger.decide(8, committed=False)
    rivals = ledger.find_rivals(wanted((20, 29)), 40)
    assert not rivals.committed
    assert not rivals.open_slots


def test_compaction_loses_nothing() -> None:
    """The last state of each slot says all that its transactions have said."""
    whole, compacted = Ledger(QUEUE), Ledger(QUEUE)
    newest: dict[bytes, bytes | None] = {}
    slots = [ProcessedOffsets(whole, slot) for slot in range(3)]
    slots[0].claim_start(TP, "in", 0)
    for number in range(60):
        slot = slots[number % 3]
        slot.claim(TP, [offset for offset in range(200) if offset % 60 == (number * 7) % 60])
        taken = slot.take_claim()
        whole.take(number, number, claim_key(QUEUE, number % 3), encode_claim(taken))
        for partition, offset in slot.states():
            key, value = encode_key(QUEUE, partition), encode_value(offset)
            newest.pop(key, None)
            newest[key] = value
            whole.take(number, number, key, value)
        whole.decide(number, committed=True)
        slot.settle()
    compacted.begin(newest.items())
    assert compacted.state(TP) == whole.state(TP)
    found = whole.state(TP)
    assert found is not None
    assert found.low == 200
    assert len(found.done) == 0


def write(
    ledger: Ledger, slot: ProcessedOffsets, number: int, offsets: list[int], newest: dict[bytes, bytes | None]
) -> None:
    """A committed transaction; newest: what compaction leaves of the topic."""
    slot.claim(TP, offsets)
    for partition, offset in slot.states():
        key, value = encode_key(QUEUE, partition), encode_value(offset)
        newest.pop(key, None)
        newest[key] = value
        ledger.take(number, number, key, value)
    ledger.decide(number, committed=True)
    slot.settle()


@given(st.lists(st.tuples(st.integers(0, 4), st.sets(st.integers(0, 30))), max_size=12), st.integers(1, 4))
def test_the_states_of_slots_that_are_gone_are_taken_over(claims: list[tuple[int, set[int]]], left: int) -> None:
    """Nothing that they have said is lost, and their keys are: no state stays for ever."""
    ledger, newest = Ledger(QUEUE), dict[bytes, bytes | None]()
    slots = [ProcessedOffsets(ledger, number, lambda: 5) for number in range(5)]
    slots[0].claim_start(TP, "in", 0)
    write(ledger, slots[0], 0, [], newest)
    for number, (slot, offsets) in enumerate(claims, 1):
        write(ledger, slots[slot], number, [one for one in offsets if not slots[slot].is_done(TP, one)], newest)
    before = ledger.state(TP)
    assert before is not None
    before = State(before.topic, before.low, before.done.copy(), dict(before.tries))
    write(ledger, ProcessedOffsets(ledger, 0, lambda: 0), 90, [40], newest)  # does not know how many there are
    assert set(ledger.slots(TP)) == {0, *(slot for slot, _ in claims)}
    write(ledger, ProcessedOffsets(ledger, 0, lambda: left), 91, [41], newest)
    assert set(ledger.slots(TP)) == {0, *(slot for slot, _ in claims if slot < left)}
    after, compacted = ledger.state(TP), Ledger(QUEUE)
    compacted.begin((key, value) for key, value in newest.items() if value is not None)
    before.done.add(40, 41)
    assert after == compacted.state(TP) == before


def test_a_slot_claims_nothing_twice_and_states_what_is_low() -> None:
    ledger = Ledger(QUEUE)
    slot = ProcessedOffsets(ledger, 0)
    slot.claim_start(TP, "in", 5)
    slot.claim(TP, [5, 6, 8])
    ((partition, offset),) = slot.states()
    assert partition == {"topic_id": "id-of-topic", "partition": 0, "slot": 0}
    assert offset == {"topic": "in", "low": 7, "done": [[8, 8]]}
    slot.settle()
    assert slot.is_done(TP, 4)
    assert slot.is_done(TP, 8)
    assert not slot.is_done(TP, 7)
    slot.claim(TP, [7])
    slot.restart(ledger)  # its transaction was aborted, and the ledger has never heard of the first either
    assert not slot.is_known(TP)


def test_whoever_says_first_where_a_partition_begins_has_said_it() -> None:
    ledger = Ledger(QUEUE)
    claim(ledger, 7, 10, 1, (-1, -1))
    assert ledger.find_rivals(wanted((-1, -1)), 11).open_slots == {1}
    state(ledger, 7, 1, 40)
    ledger.decide(7, committed=True)
    assert ledger.find_rivals(wanted((-1, -1)), 12).committed


def test_a_topic_that_was_made_again_starts_over() -> None:
    ledger = Ledger(QUEUE)
    state(ledger, -1, 0, 1000)
    assert ledger.state(InputPartition("another-id", 0)) is None


def test_an_unreadable_record_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="low"):
        Ledger(QUEUE).take(-1, 0, encode_key(QUEUE, partition_key(TP, 0)), b'{"done": []}')
    with pytest.raises(ValueError, match="claim"):
        Ledger(QUEUE).take(-1, 0, claim_key(QUEUE, 0), b'{"slot": 0}')


def test_all_of_a_ledger_goes_to_one_partition_and_nothing_else_does() -> None:
    assert log_partition_of(encode_key(QUEUE, partition_key(TP, 3))) == 0
    assert log_partition_of(encode_key(QUEUE, partition_key(TP))) == 0
    assert log_partition_of(encode_key(QUEUE, {"filename": "topic_id"})) == -1
    assert log_partition_of(b"topic_id, and no JSON") == -1
    assert parse_partition({"topic_id": "a", "partition": 0, "more": 1}) is None


def offset_of(slot: int | None, low: int, *pairs: tuple[int, int]) -> SourceOffset:
    partition = partition_key(TP, slot)
    return SourceOffset(partition, encode_state(State("in", low, Ranges(pairs))), encode_key(QUEUE, partition))


def test_people_see_one_line_a_partition_and_move_it_as_a_whole() -> None:
    known = [offset_of(0, 10, (20, 29)), offset_of(1, 12, (12, 19)), offset_of(7, 3)]
    stranger = SourceOffset({"filename": "a"}, {"position": 1}, b"")
    (kept, line) = merge(QUEUE, [*known, stranger])
    assert kept is stranger
    assert line.partition == {"topic_id": "id-of-topic", "partition": 0}
    assert line.offset == {"topic": "in", "low": 30, "done": []}
    moved = expand([(line.partition, {"low": 5})], known)
    assert moved == [*((each.partition, None) for each in known), (line.partition, {"low": 5})]
    ledger = Ledger(QUEUE)
    ledger.begin((each.key, encode_value(each.offset)) for each in known)
    for partition, offset in moved:
        ledger.take(-1, 0, encode_key(QUEUE, partition), encode_value(offset))
    found = ledger.state(TP)
    assert found is not None
    assert (found.low, found.done) == (5, Ranges())


def test_claims_are_no_source_offsets_for_others() -> None:
    assert len(json.loads(claim_key(QUEUE, 0))) == 3
