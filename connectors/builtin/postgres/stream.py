"""The replication stream: logical decoding by COPY_BOTH, with the position that is confirmed to the server."""

import select
import struct
import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg import pq

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.builtin.postgres.lsn import lsn_text
from ringfence.connectors.builtin.postgres.session import Server, one_line

_STATUS: Final = struct.Struct(">cQQQqB").pack
_EPOCH_S: Final = 946_684_800
_STATUS_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 0.5
"""That `receive` takes messages for, where none of them leads to a record."""
_DATA: Final = 119  # w
_KEEPALIVE: Final = 107  # k
HEADER: Final = 25
"""Of an XLogData message, in bytes: its kind, the position of what it is about, the server's end, a time."""

Take = Callable[[bytes | memoryview], bool]
"""`take(message)`: takes one XLogData message with its header; true when that is enough for now."""


def position_of(message: bytes | memoryview) -> int:
    """Return the position of what an XLogData message is about."""
    return int.from_bytes(message[1:9], "big")


class Stream:
    """One stream. It is read on the task's thread; another one tells the server regularly that we are here.

    The server ends a connection that is silent for `wal_sender_timeout`, and the task may be held up by Kafka for
    longer. What is confirmed changes only by `confirm`.
    """

    def __init__(self, server: Server, slot: str, publication: str, start: int, *, messages: bool) -> None:
        """start: the position from which on transactions are sent. Raises `ConnectorError`."""
        self._connection = server.connect(replication=True)
        self._pg = self._connection.pgconn
        self._confirmed = start
        self._lock = threading.Lock()
        self.server_end = start
        """How far the server has written, as its newest message says."""
        self.asked = False
        """Whether the server has asked how far we are. One that shuts down waits until that is `server_end`."""
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
            error = result.get_error_message()
            self._connection.close()
            raise ConnectorError(
                f"The server does not start replication from the slot {slot}: {' '.join(error.split())}."
            )
        self._thread = threading.Thread(target=self._stay, name="replication status", daemon=True)
        self._thread.start()

    def receive(self, take: Take, seconds: float) -> bool:
        """Hand over what has arrived until `take` has enough, or for half a second; waits for at most `seconds` where
        there is nothing.

        True where the stream is dry. Raises `RetriableError` where the server has ended the stream.
        """
        until = time.monotonic() + seconds
        while True:
            dry, taken = self._drain(take)
            if not dry:
                return False
            left = until - time.monotonic()
            if taken or left <= 0 or not select.select([self._pg.socket], [], [], left)[0]:
                return True

    def _drain(self, take: Take) -> tuple[bool, bool]:
        """Whether nothing is left, and whether there was a message."""
        pg = self._pg
        taken = False
        until = time.monotonic() + _LONGEST_SECONDS
        with self._lock:
            try:
                while True:
                    size, data = pg.get_copy_data(1)
                    if size < 0:
                        raise self._end_error()
                    if size == 0:
                        if not select.select([pg.socket], [], [], 0)[0]:
                            return True, taken
                        pg.consume_input()  # a part of what has arrived
                        if time.monotonic() > until:
                            return False, taken
                    elif data[0] == _DATA:
                        taken = True
                        if take(data):
                            return False, True
                    elif data[0] == _KEEPALIVE:
                        self._keepalive(data)
            except psycopg.OperationalError as error:
                raise RetriableError(f"The replication stream has ended: {one_line(error)}.") from error

    def _keepalive(self, data: memoryview) -> None:
        self.server_end = max(self.server_end, int.from_bytes(data[1:9], "big"))
        if data[17]:
            self.asked = True
            self._send()

    def _end_error(self) -> ConnectorError:
        result = self._pg.get_result()
        words = " ".join(result.get_error_message().split()) if result is not None else "the server ended it"
        return RetriableError(f"The replication stream has ended: {words}.")

    def confirm(self, lsn: int) -> None:
        """Tell the server that everything before this position is in Kafka: it may remove its write-ahead log."""
        with self._lock:
            self._confirmed = max(self._confirmed, lsn)
            self._send()

    def request_position(self) -> None:
        """Have the server say how far it has read its log: `server_end`, once `receive` has met the answer."""
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
                    return  # the task's thread meets it, too, and says what happened

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(10)
        self._connection.close()
