"""Heads of record batches: what kafka-python, another implementation, reads from the whole batch."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from ringfence.fencing.kafka.batch_head import add_head, combine, crc32c, next_sequence
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
    whole = add_head(encode(values), producer_id, epoch, sequence)
    batch = DefaultRecordBatch(whole)
    assert batch.validate_crc()
    assert (batch.is_transactional, batch.is_control_batch) == (True, False)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer_id, epoch, sequence)
    records = list(batch)
    assert [record.value for record in records] == values
    assert [record.timestamp - FIRST_MS for record in records] == list(range(len(values)))
    assert batch.max_timestamp == records[-1].timestamp
    assert struct.unpack_from(">qi", whole) == (0, len(whole) - 12)


@pytest.mark.parametrize("text, crc", [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA)])
def test_the_checksum_is_castagnolis(text: bytes, crc: int) -> None:
    """The values of RFC 3720, section B.4, and of its usual check."""
    assert crc32c(text) == crc


@given(st.binary(max_size=200), st.binary(max_size=2000))
def test_the_checksum_of_two_parts(first: bytes, second: bytes) -> None:
    assert combine(crc32c(first), crc32c(second), len(second)) == crc32c(first + second)


def test_after_the_largest_sequence_number_comes_zero() -> None:
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(2**31 - 2, 5) == 3
    assert next_sequence(7, 5) == 12
