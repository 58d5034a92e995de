"""The executor's part: writes the rows of one Spark partition in one open transaction, which the driver ends."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.open_transaction import OpenTransaction
from ringfence.fencing.transactions.producer import Producer
from ringfence.fencing.transactions.record_columns import GrowingColumns, RecordColumns
from ringfence.spark.errors import SinkError
from ringfence.spark.records import DIGESTS, Part, key_of, value_of_part
from ringfence.spark.settings import SinkSettings

Columns = dict[str, list[Any]]
"""Rows by column: `value`, `digest` and, if they exist, `key`, `headers`, `topic`, `partition`."""

_INIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """One pass of writing a batch. only: the parts to write, None for all; rows of other parts are only counted and
    hashed.

    series: changes whenever an earlier attempt of this run with the same ids may still be alive.
    """

    settings: SinkSettings
    batch: int
    run: int
    series: int
    only: frozenset[int] | None = None


def write_part(assignment: Assignment, number: int, attempt: int | None, blocks: Iterable[Columns]) -> Part | None:
    """Write one part and leave its transaction open. Returns None for a part without rows.

    attempt: unique in the run, None for a part's first one. If anything fails, the transaction is aborted.
    """
    writes = assignment.only is None or number in assignment.only
    rows, digest = 0, 0
    writer: _Writer | None = None
    try:
        for block in blocks:
            rows += len(block["digest"])
            digest += sum(block["digest"])
            if writes and block["digest"]:
                writer = writer or _Writer(assignment, number, attempt)
                writer.write(block)
        if not rows:
            return None
        digest %= DIGESTS
        transaction = writer.hand_over(rows, digest) if writer is not None else None
        return Part(number, rows, digest, transaction, attempt is None)
    except FencingError as error:
        raise SinkError(f"Part {number} of batch {assignment.batch}: {error}") from error
    finally:
        if writer is not None:
            writer.close()


class _Writer:
    """The producer of one part, created with its first row."""

    def __init__(self, assignment: Assignment, number: int, attempt: int | None) -> None:
        self._assignment, self._number = assignment, number
        settings = assignment.settings
        self._topic = settings.topic
        self._deadline = Deadline.after(settings.transaction_timeout_ms / 1000)
        self._producer = Producer(
            settings.connection,
            settings.transactional_id(assignment.run, assignment.series, number, attempt),
            transaction_timeout_ms=settings.transaction_timeout_ms,
            overrides=dict(settings.producer),
            handed_over=True,
        )
        self._producer.init(Deadline.after(_INIT_SECONDS))
        self._producer.begin()

    def write(self, block: Columns) -> None:
        for columns in _columns_of(block, self._topic):
            self._producer.produce_columns(columns)

    def hand_over(self, rows: int, digest: int) -> OpenTransaction:
        settings, producer = self._assignment.settings, self._producer
        transaction = producer.open_transaction
        key = key_of(settings.sink_id, "part", self._number)
        value = value_of_part(transaction, self._assignment.batch, rows, digest)
        producer.produce(settings.log_topic, value, key)
        return producer.hand_over(self._deadline)

    def close(self) -> None:
        self._producer.close()


def _columns_of(block: Columns, topic: str | None) -> Iterable[RecordColumns]:
    """Return the rows by topic and partition, each in their order."""
    if topic is None and None in block["topic"]:
        raise SinkError("A row has no topic: its column topic is null. Set a topic in all rows, or for the sink.")
    values, keys = block["value"], block.get("key")
    headers = None if "headers" not in block else [_pairs(each) for each in block["headers"]]
    if topic is not None and "partition" not in block:
        return [RecordColumns(topic, -1, values, keys, None, headers)]
    count = len(values)
    topics: Iterable[str] = [topic] * count if topic is not None else block["topic"]
    partitions = block.get("partition") or [None] * count
    places: dict[tuple[str, int], GrowingColumns] = {}
    for number, (name, partition) in enumerate(zip(topics, partitions, strict=True)):
        place = name, -1 if partition is None else partition
        columns = places.get(place) or places.setdefault(place, GrowingColumns(*place))
        key = None if keys is None else keys[number]
        columns.add(values[number], key, 0, None if headers is None else headers[number])
    return places.values()


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    return [(each["key"], each["value"]) for each in headers if each] if headers else None


WriteParts = Callable[[Assignment], list[Part]]
"""Has every part of a batch written, or compared; returns the result of one attempt for each."""
