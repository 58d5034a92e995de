"""Reads one task's share of the snapshot: one range after another, as records with an offset for each range."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import psycopg

from ringfence.connectors.api import ConnectorError, Converters, OffsetRecord, RetriableError, SourceRecord
from ringfence.connectors.builtin.postgres.json_records import find_json_records
from ringfence.connectors.builtin.postgres.json_runs import JsonRun
from ringfence.connectors.builtin.postgres.known_tables import Describe
from ringfence.connectors.builtin.postgres.pgoutput import Begin
from ringfence.connectors.builtin.postgres.records import RecordMaker, RecordSettings, SourceTransaction
from ringfence.connectors.builtin.postgres.selection import Selection
from ringfence.connectors.builtin.postgres.session import Server, Session, one_line
from ringfence.connectors.builtin.postgres.snapshot.plan import Plan, PlannedTable, Read, range_partition
from ringfence.connectors.builtin.postgres.snapshot.range_offsets import RangeProgress, progress_of
from ringfence.connectors.builtin.postgres.snapshot.range_reading import RangeReading, RawRow
from ringfence.connectors.builtin.postgres.tables import Table

logger = logging.getLogger(__name__)

_COMMIT_SECONDS: Final = 0.5
_WAIT_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Source:
    """The server to read from, and the settings of records."""

    server: Server
    session: Session
    publication: str
    selection: Selection
    describe: Describe
    records: RecordSettings
    prefix: str
    converters: Converters | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """rows: the maximum in a batch; longest_seconds: for a table without a key, which is one Kafka transaction."""

    rows: int
    longest_seconds: float


class _OpenRange:
    """A range that is being read."""

    def __init__(self, source: Source, plan: Plan, table: PlannedTable, number: int, progress: RangeProgress) -> None:
        self.table, self.number = table, number
        self.began = time.monotonic()
        self.partition = range_partition(source.prefix, table, number)
        self.reading = RangeReading(
            source.server, source.session, source.publication, table, number, progress.last, source.selection
        )
        self.progress = progress.begin(self.reading.snapshot, self.reading.until)
        self._held_back: list[RawRow] = []
        tables = plan.tables
        self._first = self._mark("first", table == tables[0]) if number == 0 and not progress.rows else None
        self._last = self._mark("last", table == tables[-1]) if number == table.ranges - 1 else None
        if self.reading.relation is not None:
            try:
                self._shape: Table = source.describe(self.reading.relation)
            except BaseException:
                self.reading.close()
                raise
        # No transaction metadata: rows of a snapshot do not belong to a transaction.
        self._maker = RecordMaker(replace(source.records, partition=self.partition, metadata=False))
        self._json = find_json_records(source.converters, self._maker)

    @staticmethod
    def _mark(which: str, of_all: bool) -> str:
        return which if of_all else f"{which}_in_data_collection"

    def take(self, limit: int) -> list[SourceRecord]:
        """Return the next records; the last one's offset is the position after exactly these."""
        reading = self.reading
        rows = self._held_back + reading.take(limit, _WAIT_SECONDS)
        self._held_back = []
        if not reading.finished and rows and self._last is not None:
            self._held_back = [rows.pop()]  # it may be the last row, which is marked
        records = self._make_records(rows)
        if rows or reading.finished:
            key = reading.key_of(rows[-1]) if rows and self.table.key else self.progress.last
            self.progress = replace(
                self.progress,
                last=key,
                rows=self.progress.rows + len(rows),
                done=reading.finished,
                at_ms=time.time_ns() // 1_000_000,
            )
            offset = self.progress.as_offset()
            if records:
                records[-1].source_offset = offset
            else:
                records.append(OffsetRecord(self.partition, offset))
        return records

    def _make_records(self, rows: list[RawRow]) -> list[SourceRecord]:
        """Make the records of rows; their offset is the position before them."""
        reading = self.reading
        records: list[SourceRecord] = []
        at = SourceTransaction(
            Begin(reading.until, reading.time_us, 0), self.progress.as_offset(), "null", snapshot="true"
        )
        run: JsonRun | None = None
        for place, row in enumerate(rows):
            ends = self._first is not None or (self._last is not None and place == len(rows) - 1)
            if self._json is not None and not ends:
                at.snapshot = "true"
                run = run or self._json.begin_run(self._shape, at)
                if run is not None and run.append_read(row, reading.until):
                    continue
            if run is not None:
                run.end(records)
                run = None
            if self._first is not None:
                at.snapshot, self._first = self._first, None
            elif self._last is not None and reading.finished and place == len(rows) - 1:
                at.snapshot = self._last
            else:
                at.snapshot = "true"
            self._maker.read(records, self._shape, row, reading.until, at)
        if run is not None:
            run.end(records)
        return records

    def close(self) -> None:
        self.reading.close()


class ReadingPhase:
    """Reads one task's share. Call `poll` until `done`."""

    def __init__(
        self,
        source: Source,
        plan: Plan,
        share: list[tuple[PlannedTable, int]],
        offset: Read,
        limits: Limits,
        request_commit: Callable[[], None],
    ) -> None:
        self._source = source
        self._plan = plan
        self._limits = limits
        self._request_commit = request_commit
        progress_list = [(table, number, self._find_progress(offset, table, number)) for table, number in share]
        self._left = [one for one in progress_list if not one[2].done]
        self._left.reverse()
        self._open: _OpenRange | None = None
        self._uncommitted_since: float | None = None

    def _find_progress(self, offset: Read, table: PlannedTable, number: int) -> RangeProgress:
        progress = progress_of(self._plan, offset(range_partition(self._source.prefix, table, number)))
        if not table.key and progress.rows and not progress.done:
            logger.warning(
                "%s.%s has no key, so its rows are read again from the beginning: some of them are duplicated. Set "
                "transaction.boundary=connector to read them in one Kafka transaction",
                *(table.schema, table.name),
            )
            return RangeProgress(self._plan.id)
        return progress

    @property
    def done(self) -> bool:
        """Whether all records were returned."""
        return self._open is None and not self._left

    def poll(self) -> list[SourceRecord] | None:
        """Return the next records. Raises `ConnectorError`, and `RetriableError` if the server does not answer."""
        try:
            return self._poll()
        except RetriableError as error:
            raise self._interrupt(error) from None
        except psycopg.OperationalError as error:
            lost = RetriableError(f"The database server does not answer: {one_line(error)}.")
            raise self._interrupt(lost) from None
        except psycopg.Error as error:
            self.close()
            raise ConnectorError(f"The rows of a table cannot be read: {one_line(error)}.") from error

    def _interrupt(self, error: RetriableError) -> ConnectorError:
        """Close the range. With a key it can continue after the returned rows; without one, the task must restart."""
        self.close()
        if self._left and not self._left[-1][0].key and self._left[-1][2].rows:
            return ConnectorError(f"{error} A restart reads the rows of the table again, without duplicates.")
        return error

    def _poll(self) -> list[SourceRecord] | None:
        if self._open is None:
            if not self._left:
                return None
            self._open = _OpenRange(self._source, self._plan, *self._left[-1])
        current = self._open
        records = current.take(self._limits.rows)
        # If the connection is lost, the range continues after the returned rows.
        self._left[-1] = (current.table, current.number, current.progress)
        now = time.monotonic()
        if records and self._uncommitted_since is None:
            self._uncommitted_since = now
        whole = bool(current.table.key) or current.progress.done
        if current.progress.done:
            self._left.pop()
            self.close()
        elif not current.table.key and now - current.began > self._limits.longest_seconds:
            raise ConnectorError(
                f"{current.table.schema}.{current.table.name} has no key, so its rows must be read in one Kafka "
                f"transaction, which takes longer than {self._limits.longest_seconds:.0f} s. Raise "
                "producer.override.transaction.timeout.ms (and the brokers' transaction.max.timeout.ms), add a primary "
                "key, or exclude the table with table.exclude.list."
            )
        since = self._uncommitted_since
        if since is not None and whole and (now - since >= _COMMIT_SECONDS or not self._left):
            self._request_commit()
            self._uncommitted_since = None
            return records  # an empty list ends the transaction, too
        return records or None

    def close(self) -> None:
        """Close the connection of the open range."""
        if self._open is not None:
            self._open.close()
            self._open = None
