"""The records of a sink's log: what a run has decided, and what each part's transaction contains. Pure.

Keys begin with the sink's id, so that many sinks can share a compacted topic:

- `[sink, "run"]` -> the newest run. Written by the driver.
- `[sink, "batch"]` -> the newest decided batch, with the open transaction of each part. Written by the driver.
- `[sink, "part", n]` -> the transaction of this record: visible if and only if that was committed.
"""

import logging
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fenced
from ringfence.fencing.kafka.open_transactions import OpenTransaction
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.spark.settings import SinkError, SinkSettings, Superseded

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


logger = logging.getLogger(__name__)

_SECONDS = 120.0
_TRIES = 5
_LOG_TIMEOUT_MS = 60_000


class SinkLog:
    """The log as used by one run. Only the last run that opens it can write: the driver's id fences earlier ones."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._token = uuid.uuid4().hex
        self._producer: Producer | None = None
        self.run = 0
        self.state = SinkState()

    @property
    def is_open(self) -> bool:
        return self._producer is not None and not self._producer.spent

    def open(self) -> None:
        """Fence earlier runs, read the log, and register this run. Raises `Superseded`.

        A registered run opens the log again after an unknown outcome, but not once a newer run has registered.
        """
        deadline = Deadline.after(_SECONDS)
        connection, topic = self._settings.connection, self._settings.log_topic
        create_topics(connection, [TopicSpec(topic, config={"cleanup.policy": "compact"})], deadline)
        for _ in range(_TRIES):
            self._renew(deadline)
            self.read(deadline)
            if self.run and self.state.token != self._token:
                raise Superseded(
                    f"The sink {self._settings.sink_id} has been started again (run {self.state.run}, this is "
                    f"run {self.run}): this query can no longer write. Stop it; the newer one continues."
                )
            if self.run:
                return
            run = self.state.run if self.state.token == self._token else self.state.run + 1
            try:
                self._write(key_of(self._settings.sink_id, "run"), value_of_run(run, self._token), deadline)
            except (Fenced, Abortable) as error:
                # Another run has started at the same time, or the response is lost: the log shows which.
                logger.info("Registering run %d of %s: %s", run, self._settings.sink_id, error)
                continue
            self.run = run
            self.state.run, self.state.token = run, self._token
            return
        raise SinkError(
            f"The sink {self._settings.sink_id} is fenced again and again: does the query run twice? Stop the other "
            "one."
        )

    def decide(self, batch: Batch) -> None:
        """Commit the decision: from then on the batch is written, even if this process ends. Raises `Superseded`.

        Raises `Abortable` if it is not decided, and the log is open again.
        """
        if not self.is_open:
            self.open()
        try:
            self._write(key_of(self._settings.sink_id, "batch"), value_of_batch(batch), Deadline.after(_SECONDS))
        except (Fenced, Abortable) as error:
            try:
                self.open()
            except Superseded:
                if self.state.batch != batch:
                    raise
            if self.state.batch != batch:
                raise Abortable(str(error), error.code) from error
        self.state.batch = batch

    def read(self, deadline: Deadline) -> SinkState:
        """Read the log to its end. Complete for transactions of ids that were initialised or fenced before."""
        self.state = SinkState()
        prefix = key_prefix(self._settings.sink_id)
        log = TopicLog(self._settings.connection, self._settings.log_topic, deadline=deadline)

        def is_ours(key: bytes | None) -> bool:
            return key is not None and key.startswith(prefix)

        try:
            records = list(log.catch_up(deadline, key_filter=is_ours))
            records += log.ahead
        finally:
            log.close()
        for record in records:
            if is_ours(record.key) and record.value is not None:
                self.state.apply(orjson.loads(record.key or b"")[1:], orjson.loads(record.value))
        return self.state

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _renew(self, deadline: Deadline) -> None:
        self.close()
        self._producer = Producer(
            self._settings.connection,
            self._settings.driver_id,
            transaction_timeout_ms=_LOG_TIMEOUT_MS,
            overrides=dict(self._settings.producer),
        )
        self._producer.init(deadline)

    def _write(self, key: bytes, value: bytes, deadline: Deadline) -> None:
        assert self._producer is not None
        self._producer.begin()
        self._producer.produce(self._settings.log_topic, value, key)
        self._producer.commit(deadline)
