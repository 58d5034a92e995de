"""How many records a `poll` has returned is known without looking at each of them."""

import pytest

from ringfence.connectors.api import RecordBatch, SourceRecord, ValueBatch
from ringfence.connectors.api.records import ColumnBatch, count_records


def test_a_batch_by_columns_is_counted_without_making_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_batch: ColumnBatch) -> None:
        pytest.fail("a record was made")

    monkeypatch.setattr(ColumnBatch, "__iter__", refuse)
    batch = ValueBatch({}, {"n": 2}, "t", None, ["a", "b", "c"], lambda number: {"n": number})
    assert count_records(batch) == 3


def test_single_records_and_whole_batches_are_counted() -> None:
    assert count_records([SourceRecord({}, {}, "t", "a"), SourceRecord({}, {}, "t", "b")]) == 2
    assert count_records(RecordBatch({}, {}, "t", [b"a", b"b", b"c"])) == 3
