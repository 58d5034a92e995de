"""Where a connector wants its transactions to end: the requests, cut out of its batches."""

from collections.abc import Sequence

import pytest

from ringfence.connectors.api import ConnectorError, RecordBatch, SourceRecord
from ringfence.fencing.task.transaction_context import BatchPart, Ending, RequestedEndings


def records(count: int) -> list[SourceRecord]:
    return [SourceRecord({"p": 1}, {"n": number}, "topic", number) for number in range(count)]


def cut(parts: Sequence[BatchPart]) -> list[tuple[list[object], Ending | None]]:
    found: list[tuple[list[object], Ending | None]] = []
    for part in parts:
        assert not isinstance(part.batch, RecordBatch)
        found.append(([record.value for record in part.batch or ()], part.ending))
    return found


def test_nothing_ends_unless_it_was_asked_for() -> None:
    assert cut(RequestedEndings().parts(records(3))) == [([0, 1, 2], None)]


def test_a_request_for_the_next_batch_counts_once() -> None:
    asked = RequestedEndings()
    asked.commit_transaction()
    assert cut(asked.parts(records(2))) == [([0, 1], Ending.COMMIT)]
    asked.abort_transaction()
    assert cut(asked.parts([])) == [([], Ending.ABORT)]
    assert cut(asked.parts(records(2))) == [([0, 1], None)]


def test_a_batch_is_cut_after_each_named_record() -> None:
    asked = RequestedEndings()
    batch = records(6)
    asked.abort_transaction(batch[3])
    asked.commit_transaction(batch[0])
    assert cut(asked.parts(batch)) == [([0], Ending.COMMIT), ([1, 2, 3], Ending.ABORT), ([4, 5], None)]


def test_a_named_last_record_and_the_batch_are_two_requests() -> None:
    asked = RequestedEndings()
    batch = records(2)
    asked.commit_transaction(batch[1])
    assert cut(asked.parts(batch)) == [([0, 1], Ending.COMMIT)]
    asked.commit_transaction(batch[1])
    asked.abort_transaction()
    assert cut(asked.parts(batch)) == [([0, 1], Ending.COMMIT), ([], Ending.ABORT)]


def test_equal_records_are_told_apart() -> None:
    asked = RequestedEndings()

    class Equal(SourceRecord):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    twins = [Equal({}, {}, "topic", number) for number in range(4)]
    asked.commit_transaction(twins[1])
    asked.abort_transaction(twins[2])
    assert cut(asked.parts(twins)) == [([0, 1], Ending.COMMIT), ([2], Ending.ABORT), ([3], None)]


def test_a_record_may_be_named_before_it_is_returned() -> None:
    asked = RequestedEndings()
    early, late = records(2)
    asked.commit_transaction(late)
    assert cut(asked.parts([early])) == [([0], None)]
    assert cut(asked.parts([late])) == [([1], Ending.COMMIT)]


def test_a_batch_of_bytes_ends_as_a_whole() -> None:
    asked = RequestedEndings()
    asked.commit_transaction()
    batch = RecordBatch({}, {}, "topic", [b"0"])
    assert asked.parts(batch) == [BatchPart(batch, Ending.COMMIT)]


def test_contradictions_are_told_when_the_batch_is_taken_and_not_to_the_plugin() -> None:
    asked = RequestedEndings()
    batch = records(2)
    asked.commit_transaction(batch[1])
    asked.abort_transaction(batch[1])
    with pytest.raises(ConnectorError, match="both commit and abort"):
        asked.parts(batch)
    asked = RequestedEndings()
    asked.commit_transaction()
    asked.abort_transaction()
    with pytest.raises(ConnectorError, match="both commit and abort"):
        asked.at_the_end()


def test_only_a_record_can_be_named() -> None:
    with pytest.raises(TypeError, match="SourceRecord"):
        RequestedEndings().commit_transaction("the last one")  # type: ignore[arg-type]
