"""Stamps of the config topic: what no leader wrote is told, and what an earlier version wrote is not."""

import hmac
from collections.abc import Sequence

from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.leader_stamps import HEADER, Foreign, Stamper, StampWatch

TOPIC = "connect-configs"


class Key:
    """Signs with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, data: str) -> str:
        return hmac.new(self._key, data.encode(), "sha256").hexdigest()

    def is_valid(self, data: str, signature: str) -> bool:
        return hmac.compare_digest(self.sign(data), signature)


OURS, OTHERS = Key(b"ours"), Key(b"others")


def record(offset: int, key: bytes, value: bytes | None, by: Key | None = OURS, at: int | None = None) -> LogRecord:
    headers: Sequence[tuple[str, bytes | None]] = ()
    if by is not None:
        headers = [*Stamper(by, "w1/i/3").headers(TOPIC, key, value, offset if at is None else at)]
    return LogRecord(0, offset, key, value, 1, headers)


def found(*records: LogRecord) -> list[int]:
    return [one.offset for one in StampWatch(TOPIC, OURS).look(records)]


def test_what_leaders_write_is_theirs() -> None:
    assert found(record(0, b"k", b"v"), record(1, b"k", None), record(9, b"k", b"", at=5)) == []


def test_what_others_write_is_told() -> None:
    """Without a stamp, under another key, with a stamp of another record, and an old record once more."""
    first, old = record(0, b"connector-a", b"1"), record(1, b"connector-a", b"2")

    def stolen(offset: int, key: bytes, value: bytes | None) -> LogRecord:
        return LogRecord(0, offset, key, value, 1, old.headers)

    records = [
        record(2, b"connector-a", b"3", by=None),
        record(3, b"connector-a", b"3", by=OTHERS),
        stolen(4, b"connector-a", b"3"),
        stolen(5, b"connector-b", b"2"),
        stolen(6, b"connector-a", None),
        LogRecord(0, 7, b"connector-a", b"3", 1, [(HEADER, b"garbage")]),
        stolen(20_000, b"connector-a", b"2"),
    ]
    assert found(first, old, *records) == [2, 3, 4, 5, 6, 7, 20_000]
    assert StampWatch("elsewhere", OURS).look([first, old]) == [], "of another topic none is valid, so none is judged"


def test_what_was_there_before_is_not_judged() -> None:
    """Of an earlier version, of Kafka Connect, or under a key that was taken away."""
    watch = StampWatch(TOPIC, OURS)
    assert watch.look([record(0, b"a", b"1", by=None), record(1, b"a", b"1", by=OTHERS)]) == []
    assert watch.look([record(2, b"a", b"2")]) == []
    assert watch.look([record(3, b"a", b"3", by=None)]) == [Foreign(3, "a", "it has no stamp")]
