"""The records of a sink's log: what a run has decided, and what each part's transaction contains. Pure.

Keys begin with the sink's id, so that many sinks can share a compacted topic:

- `[sink, "run"]` -> the newest run. Written by the driver.
- `[sink, "batch"]` -> the newest decided batch, with the open transaction of each part. Written by the driver.
- `[sink, "part", n]` -> the transaction of this record: visible if and only if that was committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from ringfence.fencing.kafka.open_transaction import OpenTransaction

DIGESTS = 2**63
"""Digests are sums of row hashes modulo this: they do not depend on the rows' order or parts."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one Spark partition. transaction: None if it was only compared. first: whether by its
    first attempt.
    """

    number: int
    rows: int
    digest: int
    transaction: OpenTransaction | None = None
    first: bool = True

    def has_rows_of(self, other: "Part") -> bool:
        return (self.rows, self.digest) == (other.rows, other.digest)


@dataclass(frozen=True, slots=True)
class Batch:
    """query: the id of the streaming query, which its checkpoint contains. run: the run that decided it."""

    number: int
    query: str
    run: int
    parts: tuple[Part, ...] = ()

    @property
    def total(self) -> Part:
        return total_of(self.parts)

    def with_parts(self, run: int, parts: Iterable[Part]) -> "Batch":
        """Return the batch with these parts instead of those with the same numbers."""
        by_number = {each.number: each for each in (*self.parts, *parts)}
        return replace(self, run=run, parts=tuple(by_number[number] for number in sorted(by_number)))


@dataclass(slots=True)
class SinkState:
    """The state of the log. token: that of the newest run. parts: the newest committed transaction of each."""

    run: int = 0
    token: str = ""
    batch: Batch | None = None
    parts: dict[int, OpenTransaction] = field(default_factory=dict)

    def apply(self, kind: list[Any], value: Mapping[str, Any]) -> None:
        """Apply one record, given its key without the sink's id."""
        match kind:
            case ["run"]:
                self.run, self.token = value["run"], value["token"]
            case ["batch"]:
                self.batch = _parse_batch(value)
            case ["part", number]:
                self.parts[number] = OpenTransaction(value["id"], value["producer"], value["epoch"])

    def missing(self, batch: Batch) -> frozenset[int]:
        """Return the parts of a batch whose transactions were not committed. Valid only after these have ended."""
        return frozenset(each.number for each in batch.parts if self.parts.get(each.number) != each.transaction)


def total_of(parts: Iterable[Part]) -> Part:
    """Return all rows as one part."""
    parts = list(parts)
    return Part(-1, sum(each.rows for each in parts), sum(each.digest for each in parts) % DIGESTS)


def key_prefix(sink_id: str) -> bytes:
    return orjson.dumps([sink_id])[:-1] + b","


def key_of(sink_id: str, *kind: object) -> bytes:
    return orjson.dumps([sink_id, *kind])


def value_of_run(run: int, token: str) -> bytes:
    return orjson.dumps({"run": run, "token": token})


def value_of_part(transaction: OpenTransaction, batch: int, rows: int, digest: int) -> bytes:
    return orjson.dumps(
        {
            "id": transaction.transactional_id,
            "producer": transaction.producer_id,
            "epoch": transaction.epoch,
            "batch": batch,
            "rows": rows,
            "digest": digest,
        }
    )


def value_of_batch(batch: Batch) -> bytes:
    parts = [
        [each.number, each.rows, each.digest, at.transactional_id, at.producer_id, at.epoch]
        for each in batch.parts
        if (at := each.transaction) is not None
    ]
    return orjson.dumps({"batch": batch.number, "query": batch.query, "run": batch.run, "parts": parts})


def _parse_batch(value: Mapping[str, Any]) -> Batch:
    parts = tuple(
        Part(number, rows, digest, OpenTransaction(name, producer, epoch))
        for number, rows, digest, name, producer, epoch in value["parts"]
    )
    return Batch(value["batch"], value["query"], value["run"], parts)
