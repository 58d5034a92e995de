"""What the ledger forgets: topics that are gone for ever, and no other."""

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.ledger_keys import InputPartition, partition_key
from ringfence.fencing.offsets.source_offsets import encode_key, encode_value
from ringfence.fencing.share.ledger import Ledger, ProcessedOffsets, State, encode_state
from ringfence.fencing.share.offset_ranges import Ranges
from ringfence.fencing.share.partition_claims import Absences

QUEUE = ConnectorName("queue")
OLD, NEW, OTHER = InputPartition("old", 0), InputPartition("new", 0), InputPartition("other", 3)
PLACES = {OLD: ("orders", "east"), NEW: ("orders", "east"), OTHER: ("events", "east")}
THERE = {"orders": "new", "events": "other"}


def test_a_topic_is_gone_when_its_cluster_says_so_for_long() -> None:
    absences = Absences(600)
    assert absences.note(0, PLACES, "east", THERE) == []
    assert absences.note(599, PLACES, "east", THERE) == []
    assert absences.note(600, PLACES, "east", THERE) == [OLD]
    assert absences.note(601, PLACES, "east", {**THERE, "events": None}) == [OLD]
    assert absences.note(1300, PLACES, "east", {**THERE, "events": None}) == [OLD, OTHER]


def test_who_cannot_tell_says_nothing_and_the_time_begins_again() -> None:
    gone = {"orders": None, "events": None}
    for doubt in ({}, THERE | {"orders": "old"}, {"events": None}):
        absences = Absences(600)
        absences.note(0, PLACES, "east", gone)
        absences.note(300, PLACES, "east", doubt)
        assert OLD not in absences.note(700, PLACES, "east", gone)
        assert OLD in absences.note(1300, PLACES, "east", gone)


def test_another_cluster_and_a_state_without_one_say_nothing() -> None:
    absences = Absences(600)
    nameless = {InputPartition("by hand", 0): ("orders", ""), InputPartition("a", 0): ("", "east")}
    for now in (0, 700, 1400):
        assert absences.note(now, PLACES, "west", THERE) == []
        assert absences.note(now, PLACES, "", {}) == []
        assert absences.note(now, nameless, "", {"orders": None, "": None}) == []
        assert absences.note(now, nameless, "east", {"orders": None}) == []


def test_nothing_is_stated_any_more_of_what_is_gone() -> None:
    ledger = Ledger(QUEUE)
    for slot in (0, 1):
        value = encode_value(encode_state(State("orders", 10 * slot, Ranges([(30, 39)]), cluster="east")))
        ledger.take(-1, -1, encode_key(QUEUE, partition_key(OLD, slot)), value)
    assert ledger.places() == {OLD: ("orders", "east")}
    first = ProcessedOffsets(ledger, 0)
    first.cluster = "east"
    first.claim_start(NEW, "orders", 0)
    first.end(OLD)
    written = first.states()
    assert [(partition, offset) for partition, offset in written if partition["topic_id"] == "old"] == [
        (partition_key(OLD, 0), None),
        (partition_key(OLD, 1), None),
    ]
    for partition, offset in written:
        ledger.take(-1, -1, encode_key(QUEUE, partition), encode_value(offset))
    first.settle()
    assert not first.pending
    assert ledger.places() == {NEW: ("orders", "east")}
    assert not first.is_known(OLD)


def test_what_a_transaction_is_about_is_not_forgotten_by_it() -> None:
    ledger = Ledger(QUEUE)
    ledger.take(-1, -1, encode_key(QUEUE, partition_key(OLD, 0)), encode_value(encode_state(State("orders", 5))))
    first = ProcessedOffsets(ledger, 0)
    first.claim(OLD, [5])
    first.end(OLD)
    assert [offset is None for _, offset in first.states()] == [False]
