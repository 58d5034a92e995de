"""A consumer with fixed partitions that is a connection and no more: no thread, no group, no client of librdkafka.

A task's process reads a few records of the config topic and of the offsets topic at its start, and hardly any later.
For each of these reads, a client of librdkafka starts four threads and connects three times, and logs in each time.
Where many thousand records are to be read, that client is the quicker one (`fencing.topics.topic_log` chooses).
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.api.fetching import NotFetchable, OutOfRange, Place, Run
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable, TopicLost
from ringfence.fencing.fetching.fetched_batches import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    FetchedPartition,
    Position,
    select_committed,
)
from ringfence.fencing.fetching.fetcher import FetchState, Problem, ProblemKind
from ringfence.fencing.fetching.raw_reader import errors_of, open_fetcher, split_answer
from ringfence.fencing.kafka.client_pool import Gate
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, LogRecord, PartitionReader, every_key
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at

log = logging.getLogger(__name__)

_WAIT_MS: Final = 2000
"""How long the broker delays an empty response. What is there to read comes at once."""
_LOOK_SECONDS: Final = 5.0

_Part = tuple[Fetched | None, int]
"""A batch of committed records, None for what readers pass over, and the position behind it."""


class LogReader:
    """Reads the given partitions of a topic from the given offsets. For one thread at a time.

    `positions` has the next offset per partition: everything before it was returned, is aborted, or is a marker. A
    position that the log does not have is moved to the log's beginning.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        start: Mapping[int, int],
        *,
        isolation: Isolation = Isolation.COMMITTED,
    ) -> None:
        """Raises `Fatal` if the connection's settings cannot be used."""
        self.topic = topic
        self.positions: dict[int, int] = {}
        self._connection = connection
        self._isolation = isolation
        self._gate = Gate(f"The reader of topic {topic}")
        self._parts: deque[tuple[int, _Part]] = deque()
        """What has arrived, in order."""
        self._ends: dict[int, int] = {}
        self._outside: set[int] = set()
        """Partitions whose log does not have the position."""
        self._old_format_reader: PartitionReader | None = None
        level = READ_COMMITTED if isolation is Isolation.COMMITTED else READ_UNCOMMITTED
        state = FetchState(self._take, partial(_make_error, connection))
        self._fetcher = open_fetcher(connection, state, _WAIT_MS, level)
        self.move(start)

    def move(self, positions: Mapping[int, int]) -> None:
        """Continue from other offsets."""
        with self._gate:
            self.positions = dict(positions)
            if self._old_format_reader is not None:
                self._old_format_reader.move(positions)
                return
            self._parts.clear()
            self._outside.clear()
            self._fetcher.remove([*self._fetcher.positions])
            self._fetcher.add({(self.topic, number): offset for number, offset in positions.items()})

    def ends(self) -> dict[int, int]:
        """Return the read_uncommitted ends from the brokers' last responses, without those that are not known yet."""
        return dict(self._ends) if self._old_format_reader is None else self._old_format_reader.ends()

    def poll(
        self, timeout: float, limit: int, key_filter: Callable[[bytes | None], bool] = every_key
    ) -> list[LogRecord]:
        """Return about `limit` records at most, since it returns whole batches; none after `timeout` seconds without
        any, or if only the position moved.

        key_filter: takes a key; records for which it returns False are left out. While no broker answers, nothing is
        returned. Raises `Fatal` (refused), `TopicLost`.
        """
        with self._gate:
            if self._old_format_reader is None:
                try:
                    return self._poll(timeout, limit, key_filter)
                except NotFetchable as error:
                    log.info("%s: it is read by another client", error)
                    self._read_old_format()
            assert self._old_format_reader is not None
            records = self._old_format_reader.poll(timeout, limit, key_filter)
            self.positions = dict(self._old_format_reader.positions)
            return records

    def close(self) -> None:
        """Close the connections, after a running `poll` has ended. Any thread may call it."""
        self._gate.close(self._close)

    def _close(self) -> None:
        self._fetcher.close()
        if self._old_format_reader is not None:
            self._old_format_reader.close()

    def _read_old_format(self) -> None:
        """Have librdkafka read from here on: of old brokers, and segments from before Kafka 0.11, which keep their
        format for ever.
        """
        self._parts.clear()
        self._fetcher.close()
        self._old_format_reader = PartitionReader(
            self._connection, self.topic, self.positions, isolation=self._isolation
        )

    def _poll(self, timeout: float, limit: int, key_filter: Callable[[bytes | None], bool]) -> list[LogRecord]:
        if not self._parts:
            self._fetch(timeout)
        records: list[LogRecord] = []
        while self._parts and len(records) < limit:
            number, (batch, until) = self._parts.popleft()
            if batch is not None:
                self._add(batch, records, key_filter)
            self.positions[number] = until
        return records

    def _fetch(self, timeout: float) -> None:
        try:
            if self._outside:
                self._move_inside()
            arrived = self._fetcher.poll_places(timeout)
        except OutOfRange as error:
            self._outside.add(error.place[1])
            return
        except Retriable as error:
            log.info("%s", error)
            return
        self._parts.extend((place[1], part) for place, part in arrived)
        waiting = {number for number, _ in self._parts}
        for (_, number), end in self._fetcher.empty_up_to.items():
            # Compaction has removed the last records.
            if number not in waiting and end > self.positions.get(number, end):
                self.positions[number] = end

    def _move_inside(self) -> None:
        firsts = offsets_at(
            self._connection, self.topic, sorted(self._outside), OffsetKind.FIRST, Deadline.after(_LOOK_SECONDS)
        )
        self._outside.clear()
        self.positions.update(firsts)
        self._fetcher.add({(self.topic, number): first for number, first in firsts.items()})

    def _take(self, place: Place, position: Position, answer: FetchedPartition) -> tuple[list[_Part], Position]:
        self._ends[place[1]] = answer.high_watermark
        batches = split_answer(place, position, answer)
        if not batches:
            return [], position
        until = batches[-1].last + 1
        parts: list[_Part] = [(each, each.last + 1) for each in select_committed(batches, answer.aborted)]
        if not parts or parts[-1][1] < until:
            parts.append((None, until))
        return parts, Position(until, position.leader_epoch)

    def _add(self, batch: Fetched, records: list[LogRecord], key_filter: Callable[[bytes | None], bool]) -> None:
        run = Run.empty(self.topic, batch.partition)
        try:
            batch.add_to(run)
        except ConnectorError as error:  # it names the remedy for a source
            raise Fatal(f"Topic {self.topic} cannot be read at offset {batch.first}: {error.__cause__}") from error
        for offset, key, value, time_ms, headers in zip(
            run.offsets, run.keys, run.values, run.times, run.headers, strict=True
        ):
            if key_filter(key):
                records.append(LogRecord(batch.partition, offset, key, value, time_ms, headers or ()))


def _make_error(connection: Connection, problem: Problem) -> Exception:
    match problem.kind:
        case ProblemKind.OUT_OF_RANGE:
            return OutOfRange((problem.topic, problem.partition), problem.offset)
        case ProblemKind.TOO_OLD:
            return NotFetchable(problem.text)
        case ProblemKind.CREATED_AGAIN:
            return TopicLost(f"Topic {problem.topic} was created again while it was read")
        case _:
            return errors_of(connection, Fatal)(problem)
