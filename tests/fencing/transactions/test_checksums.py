"""Batches that another process has encoded: what kafka-python, another implementation, reads from the whole."""

import struct

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from ringfence.fencing.transactions.record_batches import RecordBatch, combine
from tests.support.encoded import FIRST_MS, encode


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=50),
    st.integers(0, 2**62),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
)
def test_a_batch_is_what_another_implementation_reads(
    values: list[bytes], producer_id: int, epoch: int, sequence: int
) -> None:
    batch_part = RecordBatch.of(encode(values))
    whole = batch_part.head(producer_id, epoch, sequence) + batch_part.data
    batch = DefaultRecordBatch(whole)
    assert batch.validate_crc()
    assert (batch.is_transactional, batch.is_control_batch) == (True, False)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer_id, epoch, sequence)
    records = list(batch)
    assert [record.value for record in records] == values
    assert [record.timestamp - FIRST_MS for record in records] == list(range(len(values)))
    assert batch.max_timestamp == records[-1].timestamp
    assert struct.unpack_from(">qi", whole) == (0, len(whole) - 12)


@given(st.binary(max_size=200), st.binary(max_size=2000))
def test_the_checksum_of_two_parts(first: bytes, second: bytes) -> None:
    assert combine(google_crc32c.value(first), google_crc32c.value(second), len(second)) == google_crc32c.value(
        first + second
    )
