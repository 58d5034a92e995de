"""The replication stream: logical decoding over COPY_BOTH, and the position that is confirmed to the server."""

import select
import struct
import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg import pq

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.builtin.postgres.offsets import lsn_text
from ringfence.connectors.builtin.postgres.session import Server, one_line
from ringfence.connectors.builtin.postgres.slots import LostPosition

_STATUS: Final = struct.Struct(">cQQQqB").pack
_EPOCH_S: Final = 946_684_800
_STATUS_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 0.5
"""The longest time that `receive` processes messages while none of them leads to a record."""
_NO_SLOT: Final = b"42704"
"""The state `undefined_object`."""
_DATA: Final = 119  # w
_KEEPALIVE: Final = 107  # k
HEADER: Final = 25
"""Bytes of an XLogData message's header: kind, the content's position, the end of the server's log, time."""

Take = Callable[[bytes | memoryview], bool]
"""`take(message)`: processes one XLogData message with its header; returns True if that is enough for now."""


def position_of(message: bytes | memoryview) -> int:
    """Return the position of an XLogData message's content."""
    return int.from_bytes(message[1:9], "big")


class Stream:
    """One stream. The task's thread reads it; another thread sends the server regular status messages.

    The server ends a connection without messages after `wal_sender_timeout`, and the task may wait for Kafka for
    longer. Only `confirm` changes the confirmed position.
    """

    def __init__(self, server: Server, slot: str, publication: str, start: int, *, messages: bool) -> None:
        """start: the position from which transactions are sent; messages: send logical messages. Raises
        `ConnectorError`, and `LostPosition` if the slot does not exist.
        """
        self._connection = server.connect(replication=True)
        self._pg = self._connection.pgconn
        self._confirmed = start
        self._lock = threading.Lock()
        self.server_end = start
        """The end of the server's log in its newest keepalive message."""
        self.reply_requested = False
        """Whether the server has requested a status. When it shuts down, it waits until `server_end` is confirmed."""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        name = '"' + publication.replace('"', '""') + '"'
        options = [
            "proto_version '1'",
            "publication_names '" + name.replace("'", "''") + "'",
            *(["messages 'true'"] if messages else []),
        ]
        command = f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(start)} ({", ".join(options)})'
        result = self._pg.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            error = (
                f"Replication from the slot {slot} cannot be started: {' '.join(result.get_error_message().split())}."
            )
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            self._connection.close()
            raise LostPosition(error) if state == _NO_SLOT else ConnectorError(error)
        self._thread = threading.Thread(target=self._stay, name="replication status", daemon=True)
        self._thread.start()

    def receive(self, take: Take, seconds: float) -> bool:
        """Pass messages to `take` until it returns True, or for half a second; wait at most `seconds` if there are
        none.

        Returns whether the stream is dry (has no more messages). Raises `RetriableError` if the stream has ended.
        """
        until = time.monotonic() + seconds
        while True:
            dry, any_taken = self._drain(take)
            if not dry:
                return False
            left = until - time.monotonic()
            if any_taken or left <= 0 or not select.select([self._pg.socket], [], [], left)[0]:
                return True

    def _drain(self, take: Take) -> tuple[bool, bool]:
        """Return whether the stream is dry, and whether there was a message."""
        pg = self._pg
        any_taken = False
        until = time.monotonic() + _LONGEST_SECONDS
        with self._lock:
            try:
                while True:
                    size, data = pg.get_copy_data(1)
                    if size < 0:
                        raise self._end_error()
                    if size == 0:
                        if not select.select([pg.socket], [], [], 0)[0]:
                            return True, any_taken
                        pg.consume_input()  # it may read only a part of what has arrived
                        if time.monotonic() > until:
                            return False, any_taken
                    elif data[0] == _DATA:
                        any_taken = True
                        if take(data):
                            return False, True
                    elif data[0] == _KEEPALIVE:
                        self._keepalive(data)
            except psycopg.OperationalError as error:
                raise RetriableError(f"The replication stream has ended: {one_line(error)}.") from error

    def _keepalive(self, data: memoryview) -> None:
        self.server_end = max(self.server_end, int.from_bytes(data[1:9], "big"))
        if data[17]:
            self.reply_requested = True
            self._send()

    def _end_error(self) -> ConnectorError:
        result = self._pg.get_result()
        words = " ".join(result.get_error_message().split()) if result is not None else "the server ended it"
        return RetriableError(f"The replication stream has ended: {words}.")

    def confirm(self, lsn: int) -> None:
        """Confirm that everything before this position is in Kafka: the server may remove its write-ahead log."""
        with self._lock:
            self._confirmed = max(self._confirmed, lsn)
            self._send()

    def request_position(self) -> None:
        """Request the server's position. `receive` sets `server_end` when the answer arrives."""
        with self._lock:
            try:
                self._send(answer=True)
            except psycopg.OperationalError as error:
                raise RetriableError(f"The replication stream has ended: {one_line(error)}.") from error

    def _send(self, *, answer: bool = False) -> None:
        now = int((time.time() - _EPOCH_S) * 1_000_000)
        lsn = self._confirmed
        self._pg.put_copy_data(_STATUS(b"r", lsn, lsn, lsn, now, answer))
        self._pg.flush()

    def _stay(self) -> None:
        while not self._closing.wait(_STATUS_SECONDS):
            with self._lock:
                if self._closing.is_set():
                    return
                try:
                    self._send()
                except psycopg.Error:
                    return  # the task's thread gets the same error, and reports it

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(10)
        self._connection.close()
