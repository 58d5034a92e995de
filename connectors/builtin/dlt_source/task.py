"""Reads the resources of a task in turn, each from dlt's committed state.

`KnownRows` finds what is new in a resource that is read as a whole each time (`changes.only`). For each row, a digest
of its key and one of its content are stored, in source offsets of their own: in some hundred buckets by the key's
digest. Buckets that change are written in the transaction of the rows, so a row is known if and only if it is in Kafka.
"""

import base64
import hashlib
import json
import logging
import queue
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, ClassVar, Final

import requests
from dlt.common.jsonpath import compile_path, find_values
from dlt.extract.incremental.exceptions import IncrementalCursorInvalidCoercion

from ringfence.connectors.api import (
    ConnectorError,
    OffsetReader,
    OffsetRecord,
    RetriableError,
    SourceOffset,
    SourceRecord,
    SourceTask,
    UnreadableRecord,
)
from ringfence.connectors.builtin.dlt_source import settings as names
from ringfence.connectors.builtin.dlt_source.reading import Reading, State, digest_of, read_unreadable
from ringfence.connectors.builtin.dlt_source.resources import (
    find_incremental,
    is_read_whole,
    open_resources,
    primary_key,
)
from ringfence.connectors.builtin.dlt_source.rest_client import BUSY, ResponseError, address_of
from ringfence.connectors.builtin.dlt_source.rest_config import redact, redact_text
from ringfence.connectors.builtin.dlt_source.settings import BUCKET, CHANGES, CONFIG_DEF, ROWS
from ringfence.connectors.sdk.egress import EgressDenied
from ringfence.connectors.sdk.unsupported_values import handling_of

logger = logging.getLogger(__name__)

BUCKETS: Final = 256
_MAX_ROWS: Final = 20_000
"""The maximum of rows in a bucket: a source offset must fit into a record that brokers accept."""

Buckets = dict[int, dict[str, str]]
"""By bucket: the digest of each row's key, and that of its content."""


class KnownRows:
    """The rows of one resource that were delivered so far."""

    def __init__(self, partition: Mapping[str, object], columns: Sequence[str], reader: OffsetReader) -> None:
        """partition: the resource's. columns: those of its primary key. Raises `ConnectorError`."""
        self._partition = dict(partition)
        self._columns = columns
        offsets = reader.offsets([self._bucket(number) for number in range(BUCKETS)])
        self._rows: Buckets = {number: check_rows(offset) for number, offset in enumerate(offsets) if offset}

    def compare(self) -> "Comparison":
        """Return a comparison for a new reading."""
        return Comparison(self._rows, self._columns)

    def take_over(self, comparison: "Comparison") -> list[OffsetRecord]:
        """Take over all rows of a reading. Returns the offsets for the transaction with its rows."""
        changed = {
            number: comparison.rows.get(number, {})
            for number in self._rows.keys() | comparison.rows.keys()
            if comparison.rows.get(number, {}) != self._rows.get(number, {})
        }
        self._rows = comparison.rows
        return [OffsetRecord(self._bucket(number), {ROWS: rows} if rows else None) for number, rows in changed.items()]

    def _bucket(self, number: int) -> dict[str, object]:
        return {**self._partition, BUCKET: number}


class Comparison:
    """Compares one reading with the previous one."""

    def __init__(self, before: Buckets, columns: Sequence[str]) -> None:
        self._before = before
        self._columns = columns
        self.rows: Buckets = {}
        """The rows of this reading. Deleted rows are not in it: if they return, they are new."""

    def choose_new(self, items: Sequence[Any]) -> list[Any]:
        """Return the rows that are new or have changed. Raises `ConnectorError` for rows without a unique key."""
        return [item for item in items if self._is_new(item)]

    def _is_new(self, item: Any) -> bool:
        if not isinstance(item, dict) or any(item.get(column) is None for column in self._columns):
            raise ConnectorError(f"{CHANGES}: a row has no value for the primary key {', '.join(self._columns)}.")
        key = hashlib.blake2b(_encode([item[column] for column in self._columns]), digest_size=16).digest()
        number, name = key[0], _text(key)
        bucket = self.rows.setdefault(number, {})
        if name in bucket:
            values = ", ".join(repr(item[column]) for column in self._columns)
            raise ConnectorError(
                f"{CHANGES}: two rows of one reading have the primary key {values}. Set a primary_key that is unique."
            )
        if len(bucket) >= _MAX_ROWS:
            raise ConnectorError(
                f"{CHANGES}: the resource has more than about {BUCKETS * _MAX_ROWS:,} rows, the most that can be "
                "compared. Give it an incremental, or divide it."
            )
        content = bucket[name] = _text(hashlib.blake2b(_encode(item), digest_size=12).digest())
        return self._before.get(number, {}).get(name) != content


def check_rows(offset: SourceOffset) -> dict[str, str]:
    """Return the rows of a bucket. Raises `ConnectorError`."""
    rows = offset.get(ROWS)
    if not isinstance(rows, dict) or not all(isinstance(each, str) for each in rows.values()):
        raise ConnectorError(
            f"The offset {dict(offset)} must have the digests of rows under {ROWS!r}. Stop the connector and reset "
            "its offsets; then all rows are read again."
        )
    return {str(key): str(content) for key, content in rows.items()}


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _text(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


_WAIT: Final = 0.5
"""Seconds that a poll waits for a page."""
_MAX_STATE: Final = 900_000
"""The maximum size of dlt's state in bytes: a source offset must fit into a record that brokers accept."""
_MOST_REPORTED: Final = 100_000
"""Rows of a resource that cannot be read and are remembered: an incremental reads some of them again each time."""


class DltSourceTask(SourceTask):
    """Rows and the state after them are one transaction: those of a page, or those of a whole reading."""

    version: ClassVar[str | None] = "1.0.0"
    _reading: Reading | None = None  # so that stop() can follow a failed start
    _spool: IO[bytes] | None = None

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG_DEF.parse(config)
        self._settings = settings
        self._source = settings.string(names.SOURCE)
        self._prefix = settings.string(names.PREFIX)
        self._interval = settings.integer(names.POLL_INTERVAL) / 1000
        self._by_page = settings.string(names.CHECKPOINT) == names.PAGE
        resources = open_resources(settings)
        mine = json.loads(config.get(names.TASK_RESOURCES) or json.dumps(list(resources.selection)))
        self._resources = {name: resources.all_resources[name] for name in mine}
        self._states = {name: self._read_state(name) for name in mine}
        self._known_rows = {
            name: KnownRows(self._partition(name), primary_key(one), self.context.offset_reader)
            for name, one in self._resources.items()
            if settings.boolean(names.CHANGES) and is_read_whole(one, resources.all_resources)
        }
        self._handling = handling_of(settings)
        self._reported: dict[str, set[bytes]] = {name: set() for name in mine}
        self._due = dict.fromkeys(mine, 0.0)
        self._at = ""
        self._whole: Iterator[bytes] | None = None

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._whole is not None:
            return self._give_spooled()
        if self._reading is None and not self._begin():
            return None
        assert self._reading is not None
        self.has_answered = self.answers_in_part = False  # until a page, and the reading's end
        try:
            page = self._reading.take(_WAIT)
        except queue.Empty:
            self._report_repetition()
            return None
        except Exception as error:  # noqa: BLE001 - from the source; it fails the task or is tried again
            self._drop()
            raise self._explain(error) from None
        if page is None:
            self.has_answered = True
            return self._end_pass()
        if self._by_page:
            return self._give_page(page.rows, page.state)
        self._keep(page.rows, page.state)
        self.answers_in_part = True
        return None

    def _report_repetition(self) -> None:
        """Raise `RetriableError` while the client repeats a failed request; the reading goes on behind that."""
        failure = self._attempts.failure
        if failure is not None and isinstance(error := self._explain(failure), RetriableError):
            raise error

    def stop(self) -> None:
        self._drop()

    def _begin(self) -> bool:
        """Start the reading that is due first; wait if none is due. Returns whether one was started."""
        name = min(self._due, key=lambda each: self._due[each])
        rest = self._due[name] - time.monotonic()
        if rest > 0:
            self.has_answered = self.answers_in_part = False  # nobody asks it
            self.context.wait(min(rest, 1.0))
            return False
        self._at = name
        self._latest: State = self._states[name] or {}
        self._rows = 0
        self._last_cursor: Any = None
        rows = self._known_rows.get(name)
        self._comparison = rows.compare() if rows else None
        # A reading changes dlt's objects, so each starts with new ones.
        opened = open_resources(self._settings)
        resource, self._attempts = opened.all_resources[name], opened.attempts
        reported = self._reported[name] if find_incremental(resource) is not None else set()
        self._reading = Reading(resource, self._states[name], self._handling, reported)
        if not self._by_page:
            self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _drop
        return True

    def _keep(self, rows: bytes, state: State) -> None:
        assert self._spool is not None
        if self._comparison is not None:
            rows = json.dumps(self._comparison.choose_new(json.loads(rows))).encode()
        if rows != b"[]":
            self._spool.write(rows + b"\n")
            self._rows += 1
        self._latest = state

    def _end_pass(self) -> Sequence[SourceRecord] | None:
        self._also = self._take_over()
        if self._by_page or (not self._rows and not self._also and self._latest == (self._states[self._at] or {})):
            self._finish()
            return None
        assert self._spool is not None
        self._check_size(self._latest)
        self._spool.seek(0)
        self._whole = iter(self._spool)
        return self._give_spooled()

    def _give_spooled(self) -> Sequence[SourceRecord]:
        """Return one page of the reading; the transaction ends with the last."""
        assert self._whole is not None
        offset: dict[str, object] = {names.STATE: self._latest}
        records = self._records(json.loads(next(self._whole, b"[]")), offset)
        self._rows -= 1
        if self._rows <= 0:
            records = [*records, *self._also]
            self._commit()
            self._states[self._at] = self._latest
            self._finish()
        return records

    def _take_over(self) -> Sequence[OffsetRecord]:
        """Return the offsets with the digests of known rows. They are only valid in one transaction with the rows:
        without transactions, rows are delivered again after a start.
        """
        if self._comparison is None:
            return []
        changed = self._known_rows[self._at].take_over(self._comparison)
        return changed if self.context.transaction_context is not None else []

    def _give_page(self, rows: bytes, state: State) -> Sequence[SourceRecord] | None:
        items = json.loads(rows)
        if not items and state == (self._states[self._at] or {}):
            return None
        self._check_size(state)
        self._check_order(items)
        self._states[self._at] = state
        self._commit()
        return self._records(items, {names.STATE: state})

    def _records(self, items: list[Any], offset: dict[str, object]) -> Sequence[SourceRecord]:
        partition = self._partition(self._at)
        if not items:
            return [OffsetRecord(partition, offset)]
        topic = self._prefix + self._at
        columns = primary_key(self._resources[self._at])
        return [self._record(partition, offset, topic, item, columns) for item in items]

    def _record(
        self, partition: dict[str, str], offset: dict[str, object], topic: str, item: Any, columns: tuple[str, ...]
    ) -> SourceRecord:
        unreadable, key = read_unreadable(item), _key_of(item, columns)
        if unreadable is None:
            return SourceRecord(partition, offset, topic, item, key)
        error, text = unreadable
        if len(self._reported[self._at]) < _MOST_REPORTED:
            self._reported[self._at].add(digest_of(item))
        return UnreadableRecord(partition, offset, topic, error, text, None if key is None else json.dumps(key))

    def _commit(self) -> None:
        if self.context.transaction_context is not None:
            self.context.transaction_context.commit_transaction()

    def _check_order(self, items: list[Any]) -> None:
        """Raise for a page that begins before the end of the previous one: dlt's state would miss its rows after a
        restart.
        """
        incremental = find_incremental(self._resources[self._at])
        if incremental is None or not items:
            return
        path = compile_path(incremental.cursor_path)  # slower than processing a record
        cursors = [value for item in items for value in find_values(path, item) if value is not None]
        if cursors and self._last_cursor is not None and min(cursors) < self._last_cursor:
            raise ConnectorError(
                f"The API does not return {self._at} in the order of {incremental.cursor_path}: {min(cursors)!r} came "
                f"after {self._last_cursor!r}. Set {names.CHECKPOINT}={names.PASS} and transaction.boundary=connector."
            )
        if cursors:
            self._last_cursor = max(cursors)

    def _check_size(self, state: State) -> None:
        size = len(json.dumps(state))
        if size > _MAX_STATE:
            raise ConnectorError(
                f"The state of {self._at} has {size} bytes, more than {_MAX_STATE}: too many rows have the last "
                "cursor value. Choose a cursor with a finer resolution, such as a time with milliseconds."
            )

    def _finish(self) -> None:
        self._due[self._at] = time.monotonic() + self._interval
        self._drop()

    def _drop(self) -> None:
        if self._reading is not None:
            self._reading.stop()
            self._reading = None
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        self._whole = None

    def _explain(self, error: BaseException) -> Exception:
        """Return the error to raise: retriable or not, without secrets, and with the place and the remedy."""
        chain = [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
            chain.append(cause)
        for each in chain:
            if isinstance(each, ResponseError):
                return self._failure(str(each))
            response = getattr(each, "response", None)
            if isinstance(response, requests.Response):
                status = response.status_code
                text = f"{address_of(response.request)} was answered with status {status}. {_what_to_do(status)}"
                return self._failure(text, again=status in BUSY or status >= 500)
            if isinstance(each, requests.ConnectionError | requests.Timeout):
                text = f"the API does not answer ({redact(self._settings, each)}). Check its address, and try again"
                return self._failure(text, again=True)
            if isinstance(each, IncrementalCursorInvalidCoercion):
                return self._failure(
                    f"the cursor {each.cursor_path} of the rows and initial_value of the incremental are not of one "
                    f"type. Correct {self._setting}"
                )
        first = chain[-1]
        if isinstance(first, ConnectorError | EgressDenied):
            return self._failure(str(first))
        return self._failure(
            f"the source failed ({redact(self._settings, first)}). Correct {self._setting}, or the source itself"
        )

    @property
    def _setting(self) -> str:
        return names.REST if self._source == names.REST_API else names.ARGUMENTS

    def _failure(self, text: str, *, again: bool = False) -> Exception:
        message = f"{self._at} cannot be read: {redact_text(self._settings, text)}"
        return RetriableError(message) if again else ConnectorError(message)

    def _partition(self, name: str) -> dict[str, str]:
        return {names.SOURCE_KEY: self._source, names.RESOURCE_KEY: name}

    def _read_state(self, name: str) -> State | None:
        committed = self.context.offset_reader.offset(self._partition(name))
        if committed is None:
            return None
        state = committed.get(names.STATE)
        if not isinstance(state, dict):
            raise ConnectorError(
                f"The committed source offset {dict(committed)} is not a state of dlt. Stop the connector and alter "
                "or reset its offsets."
            )
        return state


def _key_of(item: Any, columns: tuple[str, ...]) -> object:
    """Return the value of the primary key; a mapping if it has several columns."""
    if not columns or not isinstance(item, dict) or any(column not in item for column in columns):
        return None
    return item[columns[0]] if len(columns) == 1 else {column: item[column] for column in columns}


def _what_to_do(status: int) -> str:
    match status:
        case 401 | 403:
            return f"Check {names.AUTH}, and what its account may read"
        case 404 | 410:
            return f"Check base_url and the path in {names.REST}"
        case _ if status in BUSY or status >= 500:
            return "It is requested again"
        case _:
            return f"Check the request in {names.REST}"
