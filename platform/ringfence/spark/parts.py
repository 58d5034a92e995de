"""The executor's part: writes the rows of one Spark partition in one open transaction, which the driver ends."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.open_transaction import OpenTransaction
from ringfence.fencing.kafka.transactional_producer import TransactionalProducer
from ringfence.fencing.records.produce_calls import Call, send_calls
from ringfence.spark.errors import SinkError
from ringfence.spark.records import DIGESTS, Part, key_of, value_of_part
from ringfence.spark.settings import SinkSettings

Columns = dict[str, list[Any]]
"""Rows by column: `value`, `digest` and, if they exist, `key`, `headers`, `topic`, `partition`."""

_INIT_SECONDS = 120.0
_REPORT_SECONDS = 1.0


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
        self._producer = TransactionalProducer(
            settings.connection,
            settings.transactional_id(assignment.run, assignment.series, number, attempt),
            transaction_timeout_ms=settings.transaction_timeout_ms,
            overrides=dict(settings.producer),
            handed_over=True,
        )
        self._producer.init(Deadline.after(_INIT_SECONDS))
        self._producer.begin()

    def write(self, block: Columns) -> None:
        self._send(list(_calls_of(block, self._topic)))
        self._producer.serve(0)
        self._producer.check_deliveries()

    def _send(self, calls: list[Call]) -> None:
        try:
            with kafka_errors(f"writing part {self._number}"):
                send_calls(calls, self._producer.produce, self._make_room)
        except FencingError:  # after a refused record the client accepts no more: the refusal has the reason
            self._producer.flush(_REPORT_SECONDS)
            self._producer.check_deliveries()
            raise

    def _make_room(self) -> None:
        self._producer.serve(0.1)
        self._producer.check_deliveries()

    def hand_over(self, rows: int, digest: int) -> OpenTransaction:
        settings, producer = self._assignment.settings, self._producer
        transaction = producer.open_transaction
        key = key_of(settings.sink_id, "part", self._number)
        value = value_of_part(transaction, self._assignment.batch, rows, digest)
        self._send([(settings.log_topic, value, key)])
        return producer.hand_over(self._deadline)

    def close(self) -> None:
        self._producer.close()


def _calls_of(block: Columns, topic: str | None) -> Iterable[Call]:
    topics: Iterable[str | None] = repeat(topic) if topic is not None else block["topic"]
    if topic is None and None in block["topic"]:
        raise SinkError("A row has no topic: its column topic is null. Set a topic in all rows, or for the sink.")
    values, keys = block["value"], block.get("key") or repeat(None)
    if "partition" not in block and "headers" not in block:
        return zip(topics, values, keys, strict=False)
    partitions = [-1 if each is None else each for each in block["partition"]] if "partition" in block else repeat(-1)
    if "headers" not in block:
        return zip(topics, values, keys, partitions, strict=False)
    no: Iterable[None] = repeat(None)
    headers = [_pairs(each) for each in block["headers"]]
    return zip(topics, values, keys, partitions, no, no, repeat(0), headers, strict=False)


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    return [(each["key"], each["value"]) for each in headers if each] if headers else None


WriteParts = Callable[[Assignment], list[Part]]
"""Has every part of a batch written, or compared; returns the result of one attempt for each."""
