"""What a topic accepts, held against a record before it is accepted."""

import pytest

from ringfence.connectors.api import RecordRefused
from ringfence.fencing.records.topic_name_check import TopicLimits, check_record, record_bytes
from ringfence.fencing.transactions.record_columns import Record

NOW = 1_700_000_000_000
MOST = 1_000_000


def call(value: bytes | None = b"v", key: bytes | None = b"k", at: int | None = NOW, **headers: bytes) -> Record:
    return "topic", value, key, -1, at or 0, [*headers.items()]


def check(record: Record, limits: TopicLimits, most: int = MOST) -> None:
    check_record(record, record_bytes(record), limits, most, NOW)


def test_a_topics_settings() -> None:
    settings = {
        "max.message.bytes": "1048588",
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": "9223372036854775807",
        "message.timestamp.after.max.ms": "3600000",
    }
    assert TopicLimits.of(settings) == TopicLimits(1_048_588, True, 9_223_372_036_854_775_807, 3_600_000)
    log_time = {**settings, "message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
    assert TopicLimits.of(log_time) == TopicLimits(1_048_588)
    assert TopicLimits.of({}) == TopicLimits()


@pytest.mark.parametrize(
    ("record", "limits", "too_large"),
    [
        (call(b"x" * 2000), TopicLimits(2000), True),
        (call(b"x" * MOST), TopicLimits(), True),
        (call(b"", b"x" * 2000), TopicLimits(2000), True),
        (call(b"", h=b"x" * 2000), TopicLimits(2000), True),
        (call(key=None), TopicLimits(keyed=True), False),
        (call(at=-1), TopicLimits(), False),
        (call(at=2**63), TopicLimits(), False),
        (call(at=NOW - 1001), TopicLimits(past_ms=1000), False),
        (call(at=NOW + 1001), TopicLimits(future_ms=1000), False),
    ],
)
def test_what_a_broker_would_refuse_is_refused_before(record: Record, limits: TopicLimits, too_large: bool) -> None:
    with pytest.raises(RecordRefused) as refused:
        check(record, limits)
    assert refused.value.too_large is too_large


@pytest.mark.parametrize(
    ("record", "limits"),
    [
        (call(b"x" * 1800), TopicLimits(2000)),
        (call(None), TopicLimits(keyed=True)),
        (call(at=None), TopicLimits(past_ms=0, future_ms=0)),
        (call(at=NOW), TopicLimits(past_ms=1000, future_ms=1000)),
    ],
)
def test_what_fits_is_admitted(record: Record, limits: TopicLimits) -> None:
    check(record, limits)
