"""The reader processes of a worker: they decode, filter and show what others wrote, so that the worker never does.

The worker reads from Kafka, with its own logins or a connector's, and hands bytes to a reader; it gets text back. So a
process that decodes foreign bytes has no login, and if it crashes, hangs or takes all its memory, one request fails.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine.browsing.reader_calls import OpenReading, ReaderCall, SelectRecords, ShowRecords
from ringfence.engine.plugins.call_server import encode_bytes
from ringfence.engine.plugins.errors import (
    BadRequest,
    OutOfMemory,
    PluginError,
    PluginStarting,
    PluginTimeout,
)
from ringfence.engine.plugins.process import CallPool, ChildProcess
from ringfence.engine.spark.connector_limits import few_threads, only_harmless
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_records import MetRecord, TailRecord
from ringfence.memory_limit import CALL_MEMORY_LIMIT, memory_limit
from ringfence.requests.request import Answer, Refusal

log = logging.getLogger(__name__)

MODULE: Final = "ringfence.engine.browsing.reader_main"
PROCESSES: Final = 4
_WARM: Final = 2
"""How many processes wait for pages. If a schema breaks one, its page is shown by the other, without the schema."""
_CALL_BYTES: Final = 1024 * 1024
"""The bytes of the records in one call, unless a single record has more."""
_NO_SCHEMAS: Final = (
    "The schemas of the Schema Registry are not used: a record of this page could not be decoded with them{}."
)

Json = Mapping[str, Any]


class Readers:
    """One object per worker, thread-safe."""

    def __init__(
        self,
        limits: WorkerLimits | None = None,
        memory: int | None = memory_limit({}, CALL_MEMORY_LIMIT),
        processes: int = PROCESSES,
    ) -> None:
        """limits: for outgoing connections and files, those of this process by default. memory: in bytes, of a call."""
        self._limits = limits
        self._memory = memory
        self._pool = CallPool(self._start, processes, warm=min(_WARM, processes), refill=True)

    def warm(self) -> None:
        """Start the processes for the first pages."""
        self._pool.fill()

    @contextmanager
    def open(self, reading: OpenReading, limit: Deadline) -> Iterator["Reader"]:
        """Return a reader of this kind within the block. Raises `Refusal`."""
        with _refusals(), self._pool.lease(reading.name, limit) as child:
            reader = Reader(child, limit)
            reader.call(reading)
            yield reader

    def show(self, records: Sequence[TailRecord], reading: OpenReading, limit: Deadline) -> list[dict[str, object]]:
        """Return `key`, `value` and `headers` of each record. Raises `Refusal`.

        If a schema of a registry breaks the reader, the page is shown without schemas: one record hides no page.
        """
        if not (reading.key or reading.value):
            with self.open(reading, limit) as reader:
                return reader.show(records)
        first = Deadline.after(limit.remaining / 2)
        try:
            with self._pool.lease(reading.name, first) as child:
                reader = Reader(child, first)
                reader.call(reading)
                return reader.show(records)
        except BadRequest as error:
            raise Refusal(400, error.message) from error
        except PluginError as error:
            log.warning("A page is shown without the schemas of its registry: %s", error)
            why = _NO_SCHEMAS.format(" in time" if isinstance(error, PluginTimeout) else "")
        with self.open(replace(reading, key={}, value={}, why=why), limit) as reader:
            return reader.show(records)

    def close(self) -> None:
        self._pool.close()

    def _start(self) -> ChildProcess:
        limits = self._limits or worker_limits.current()
        return ChildProcess(
            environment={worker_limits.ENVIRONMENT: json.dumps(limits.as_settings()), **few_threads(os.environ)},
            memory=self._memory,
            module=MODULE,
            inherited=only_harmless(os.environ),
        )


class Reader:
    """One process, for one page."""

    def __init__(self, child: ChildProcess, limit: Deadline) -> None:
        self._child = child
        self._limit = limit

    def call(self, call: ReaderCall[Answer]) -> Answer:
        return self._child.call(call, max(0.001, self._limit.remaining))

    def select(self, records: Sequence[MetRecord]) -> list[bool]:
        """Return which records match the reading's filter."""
        wire = [
            {
                "partition": each.partition,
                "offset": each.offset,
                "timestamp_ms": each.timestamp_ms,
                "key": encode_bytes(each.key),
                "value": encode_bytes(each.value),
                "headers": [[name, encode_bytes(data), 0] for name, data in each.headers],
            }
            for each in records
        ]
        return self._in_slices(wire, SelectRecords)

    def show(self, records: Sequence[TailRecord]) -> list[dict[str, object]]:
        """Return `key`, `value` and `headers` of each record for display."""
        wire = [
            {
                "key": encode_bytes(each.key),
                "key_size": each.key_size,
                "value": encode_bytes(each.value),
                "value_size": each.value_size,
                "headers": [[name, encode_bytes(data), size] for name, data, size in each.headers],
            }
            for each in records
        ]
        return self._in_slices(wire, ShowRecords)

    def _in_slices(
        self, records: Sequence[Json], call: Callable[[Sequence[Mapping[str, object]]], ReaderCall[list[Answer]]]
    ) -> list[Answer]:
        answers: list[Answer] = []
        for part in slices(records, _CALL_BYTES, _weight):
            answers += self.call(call(part))
        return answers


def slices(records: Sequence[Json], most: int, weigh: Callable[[Json], int]) -> Iterator[list[Json]]:
    """Split the records into parts that weigh at most that much, unless a single one weighs more."""
    part: list[Json] = []
    weight = 0
    for record in records:
        own = weigh(record)
        if part and weight + own > most:
            yield part
            part, weight = [], 0
        part.append(record)
        weight += own
    if part:
        yield part


def _weight(record: Json) -> int:
    return sum(len(text or "") for text in (record["key"], record["value"], *(each[1] for each in record["headers"])))


@contextmanager
def _refusals() -> Iterator[None]:
    """Say what a failure means for a page. What a reader decoded, and where it crashed, is not for its users."""
    try:
        yield
    except BadRequest as error:
        raise Refusal(400, error.message) from error
    except PluginStarting as error:
        raise Refusal(503, "The process that decodes records is still starting. Ask again", retry=True) from error
    except PluginTimeout as error:
        log.warning("A page of records was not decoded: %s", error)
        text = (
            "The records could not be decoded and filtered in time, or your account already reads as many pages as it "
            "may. Ask for fewer records, or with a simpler filter"
        )
        raise Refusal(503, text, retry=True) from error
    except OutOfMemory as error:
        raise Refusal(500, f"{error.message} Ask for fewer records") from error
    except PluginError as error:
        log.warning("A page of records was not decoded: %s", error)
        text = (
            "The process that decodes records ended while it read these: one of them, or its schema, breaks it. Ask "
            "for the records before or behind it, or without a filter"
        )
        raise Refusal(500, text) from error
