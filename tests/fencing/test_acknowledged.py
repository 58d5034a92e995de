"""Which source offsets may be written without transactions: never one with something missing before it."""

from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.errors import Fatal
from ringfence.fencing.task.at_least_once_run import SubmittedBatch, SubmittedRecords

A, B = {"file": "a"}, {"file": "b"}


def taken(book: SubmittedRecords) -> dict[str, object]:
    book.advance()
    return {str(partition["file"]): offset and offset["at"] for partition, offset in book.take()}


def test_an_offset_waits_for_every_record_before_it() -> None:
    book = SubmittedRecords()
    first, second = book.begin(A, {"at": 2}, 2), book.begin(A, {"at": 3}, 1)
    second.on_delivery(None)
    first.on_delivery(None)
    assert taken(book) == {}
    first.on_delivery(None)
    assert taken(book) == {"a": 3}
    assert taken(book) == {}


def test_source_partitions_do_not_wait_for_each_other() -> None:
    book = SubmittedRecords()
    book.begin(A, {"at": 1}, 1)
    book.begin(B, {"at": 1}, 1).on_delivery(None)
    assert taken(book) == {"b": 1}


def test_a_failed_record_holds_back_all_that_follows_for_ever() -> None:
    book = SubmittedRecords()
    book.begin(A, {"at": 1}, 1).on_delivery(None)
    book.begin(A, {"at": 2}, 1).on_delivery(Fatal("too large"))
    book.begin(A, {"at": 3}, 1).on_delivery(None)
    assert taken(book) == {"a": 1}
    assert str(book.failure) == "too large"


def test_a_run_that_transforms_dropped_counts_at_once_but_in_its_turn() -> None:
    book = SubmittedRecords()
    first = book.begin(A, {"at": 1}, 1)
    book.begin(A, {"at": 2}, 0)
    assert taken(book) == {}
    first.on_delivery(None)
    assert taken(book) == {"a": 2}


def test_offsets_that_could_not_be_written_come_back_unless_newer_ones_are_there() -> None:
    book = SubmittedRecords()
    for partition in (A, B):
        book.begin(partition, {"at": 1}, 1).on_delivery(None)
    book.advance()
    failed = book.take()
    book.begin(A, {"at": 2}, 1).on_delivery(None)
    book.advance()
    book.put_back(failed)
    assert taken(book) == {"a": 2, "b": 1}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=12), st.randoms())
def test_in_any_order_of_acknowledgements_nothing_is_missing_before_an_offset(
    sizes: list[tuple[str, int]], order: "object"
) -> None:
    book = SubmittedRecords()
    runs: list[SubmittedBatch] = [book.begin({"file": name}, {"at": n}, size) for n, (name, size) in enumerate(sizes)]
    answers = [n for n, (_, size) in enumerate(sizes) for _ in range(size)]
    order.shuffle(answers)  # type: ignore[attr-defined]
    missing = {n: size for n, (_, size) in enumerate(sizes)}
    for n in answers:
        runs[n].on_delivery(None)
        missing[n] -= 1
        for name, at in taken(book).items():
            assert not any(missing[i] for i, (other, _) in enumerate(sizes) if other == name and i <= int(str(at)))
    assert book.waiting == 0
