"""The offsets topic in Kafka Connect's format; equal partitions are equal however they were written."""

import json

import pytest

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.offsets.source_offsets import (
    SourceOffsets,
    canonical,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

C = ConnectorName("c")


def record(key: bytes | None, value: bytes | None, offset: int = 0) -> LogRecord:
    return LogRecord(0, offset, key, value, 0)


def folded(*records: LogRecord) -> SourceOffsets:
    offsets = SourceOffsets(C)
    offsets.take(records)
    return offsets


def test_keys_and_values_have_kafka_connects_form() -> None:
    assert encode_key(C, {"filename": "/a"}) == b'["c",{"filename":"/a"}]'
    assert encode_value({"position": 5}) == b'{"position":5}'
    assert encode_value(None) is None
    assert decode_key(b'["c",{"filename":"/a"}]') == (C, {"filename": "/a"})
    assert decode_value(b'{"position":5}') == {"position": 5}


def test_names_outside_ascii_are_written_as_they_are() -> None:
    assert encode_key(C, {"file": "zürich"}) == '["c",{"file":"zürich"}]'.encode()


def test_equal_partitions_are_equal_whatever_the_order_of_their_keys() -> None:
    assert canonical({"a": 1, "b": {"c": 2, "d": 3}}) == canonical({"b": {"d": 3, "c": 2}, "a": 1})
    assert canonical({"a": 1}) != canonical({"a": "1"})


def test_a_partition_is_rewritten_under_the_bytes_under_which_it_was_found() -> None:
    spaced = b'["c", {"b": 2, "a": 1}]'
    offsets = folded(record(spaced, b'{"n": 7}'))
    assert offsets.offset({"a": 1, "b": 2}) == {"n": 7}
    assert offsets.key_of({"a": 1, "b": 2}) == spaced
    assert offsets.key_of({"a": 9}) == encode_key(C, {"a": 9})


def test_the_newest_value_counts_and_a_tombstone_deletes() -> None:
    key = encode_key(C, {"p": 1})
    assert folded(record(key, b'{"n":1}'), record(key, b'{"n":2}')).offset({"p": 1}) == {"n": 2}
    deleted = folded(record(key, b'{"n":1}'), record(key, None))
    assert deleted.offset({"p": 1}) is None
    assert deleted.present() == []
    assert deleted.key_of({"p": 1}) == key


def test_two_spellings_of_one_partition_are_one() -> None:
    spellings = (b'["c",{"p":1}]', b'["c", {"p": 1}]')
    offsets = folded(*(record(key, json.dumps({"n": n}).encode()) for n, key in enumerate(spellings)))
    assert [found.offset for found in offsets.present()] == [{"n": 1}]


def test_other_connectors_and_what_is_no_source_partition_are_passed_over() -> None:
    strangers = [
        record(b'["other",{"p":1}]', b'{"n":1}'),
        record(b'["c",{"p":1},3]', b'{"n":1}'),
        record(b'["c","p"]', b'{"n":1}'),
        record(b'{"c":{"p":1}}', b'{"n":1}'),
        record(b"sentinel", b"x"),
        record(b"[" * 100_000, b"x"),
        record(None, b'{"n":1}'),
    ]
    assert folded(*strangers).present() == []


@pytest.mark.parametrize("value", [b"", b"5", b"[1]", b"not json", b"[" * 100_000])
def test_a_value_that_is_no_object_is_no_offset(value: bytes) -> None:
    assert decode_value(value) is None


def test_many_partitions_are_answered_in_the_order_asked() -> None:
    keys = [encode_key(C, {"p": n}) for n in range(3)]
    offsets = folded(*(record(key, json.dumps({"n": n}).encode()) for n, key in enumerate(keys)))
    assert offsets.offsets([{"p": 2}, {"p": 9}, {"p": 0}]) == [{"n": 2}, None, {"n": 0}]
