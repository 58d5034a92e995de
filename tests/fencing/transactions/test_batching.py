"""Records become batches: by partition, of a limited size, by key or together."""

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from ringfence.fencing.transactions.batching import Batching
from ringfence.fencing.transactions.messages import Place
from ringfence.fencing.transactions.record_batches import RecordBatch
from ringfence.fencing.transactions.record_columns import RecordColumns
from tests.support.encoded_batches import read


class Gathered(list[tuple[Place, RecordBatch]]):
    def note(self, place: Place, batch: RecordBatch) -> None:
        self.append((place, batch))


maybe_bytes = st.none() | st.binary(max_size=60)
record = st.tuples(
    maybe_bytes,
    maybe_bytes,
    st.integers(-1, 2),
    st.sampled_from([0, 5_000]),
    st.none() | st.just([("h", b"1"), ("g", None)]),
)


@given(st.lists(record, max_size=60), st.integers(100, 2000))
def test_every_record_is_in_one_batch_in_order(
    records: list[tuple[bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]] | None]], size: int
) -> None:
    gathered = Gathered()
    batching = Batching(gathered.note, lambda _: [1, 1, 1], size)
    for value, key, partition, time, headers in records:
        batching.add("t", value, key, partition, time, headers)
    batching.flush()
    assert batching.bytes == 0
    by_partition: dict[int, list[object]] = {0: [], 1: [], 2: []}
    for (_, partition), batch in gathered:
        for each in read(batch):
            by_partition[partition].append((each.value, each.key, list(each.headers)))
        assert batch.size <= size or batch.count == 1
    wanted = [(value, key, list(headers or ())) for value, key, _, _, headers in records]
    assert Counter(map(repr, chain.from_iterable(by_partition.values()))) == Counter(map(repr, wanted))
    for number, found in by_partition.items():
        fixed = iter([one for one, each in zip(wanted, records, strict=True) if each[2] == number])
        following = next(fixed, None)
        for each in found:
            if each == following:
                following = next(fixed, None)
        assert following is None, "records for a partition are out of order"
    for value, key, partition, _, headers in records:
        if partition < 0 and key is not None:
            at = (murmur2(key) & 0x7FFFFFFF) % 3
            assert (value, key, list(headers or ())) in by_partition[at]


@given(st.lists(record, min_size=1, max_size=60), st.integers(100, 2000), st.booleans(), st.integers(-1, 1))
def test_columns_are_the_same_as_single_records(
    records: list[tuple[bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]] | None]],
    size: int,
    keyed: bool,
    partition: int,
) -> None:
    values, keys, _, times, headers = zip(*records, strict=True)
    gathered = Gathered()
    batching = Batching(gathered.note, lambda _: [1, 1], size)
    batching.add("t", b"first", None, 0, 0, None)
    batching.add_columns(RecordColumns("t", partition, values, keys if keyed else None, times, headers))
    batching.flush()
    found: dict[int, list[object]] = {0: [], 1: []}
    for (_, number), batch in gathered:
        found[number] += [(each.value, each.key, list(each.headers)) for each in read(batch)]
        assert batch.size <= size or batch.count == 1
    assert found[0][0] == (b"first", None, [])
    wanted = [
        (value, key if keyed else None, list(more or ()))
        for value, key, more in zip(values, keys, headers, strict=True)
    ]
    if partition >= 0:
        assert found[partition][-len(wanted) :] == wanted
    else:
        assert Counter(map(repr, found[0][1:] + found[1])) == Counter(map(repr, wanted))


def test_a_batch_without_keys_goes_to_one_reachable_partition() -> None:
    gathered = Gathered()
    batching = Batching(gathered.note, lambda _: [1, -1, 2], 1000)
    for number in range(2000):
        batching.add("t", b"%d" % number, None, -1, 0, None)
    batching.flush()
    partitions = Counter(partition for (_, partition), _ in gathered)
    assert set(partitions) == {0, 2}
    assert min(partitions.values()) > 5
    assert sum(batch.count for _, batch in gathered) == 2000


def test_a_topic_with_more_partitions_has_its_keys_elsewhere() -> None:
    gathered, leaders = Gathered(), [1]
    batching = Batching(gathered.note, lambda _: leaders, 10_000)
    batching.add("t", b"1", b"key", -1, 0, None)
    leaders *= 8
    batching.add("t", b"2", b"key", -1, 0, None)
    batching.flush()
    assert [place for place, _ in gathered] == [("t", 0), ("t", (murmur2(b"key") & 0x7FFFFFFF) % 8)]


@pytest.mark.parametrize("more", ["nothing", "a record", "columns"])
def test_records_that_were_encoded_ahead_are_not_encoded_again_unless_others_join_them(more: str) -> None:
    gathered = Gathered()
    batching = Batching(gathered.note, lambda _: [1], 10_000, "gzip")
    columns = RecordColumns("t", -1, [b"a", None, b"c"], None, [5_000, 0, 0], [None, [("h", b"1")], None])
    batching.encode_ahead(columns)
    ahead = columns.encoded
    batching.add_columns(columns)
    if more == "a record":
        batching.add("t", b"d", None, 0, 0, None)
    elif more == "columns":
        batching.add_columns(RecordColumns("t", 0, [b"d"]))
    batching.flush()
    ((place, batch),) = gathered
    assert place == ("t", 0)
    assert (batch is ahead) is (more == "nothing")
    found = [(each.value, list(each.headers)) for each in read(batch)]
    assert found == [(b"a", []), (None, [("h", b"1")]), (b"c", []), (b"d", [])][: len(found)]
    assert len(found) == (3 if more == "nothing" else 4)


def test_what_is_no_batch_by_itself_is_not_encoded_ahead() -> None:
    batching = Batching(Gathered().note, lambda _: [1], 1000)
    for columns in (RecordColumns("t", -1, [b"x" * 500] * 2), RecordColumns("t", -1, [b"x"], [b"key"])):
        batching.encode_ahead(columns)
        assert columns.encoded is None


def test_a_record_that_reports_is_encoded_with_its_report() -> None:
    gathered, written = Gathered(), list[tuple[int, int, int]]()
    batching = Batching(gathered.note, lambda _: [1], 1000)
    columns = RecordColumns("t", 0, [b"x", b"y"])
    batching.encode_ahead(columns)
    batching.add_columns(columns, [None, lambda *place: written.append(place)])
    batching.flush()
    gathered[0][1].report(0, 7, 99)
    assert written == [(0, 8, 99)]
