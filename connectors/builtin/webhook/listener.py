"""The task's listener: takes requests from web processes over TCP, and sends the answers. Runs on its own thread."""

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from ringfence.connectors.builtin.webhook.request_parsing import Receiver
from ringfence.connectors.builtin.webhook.request_queue import (
    FAILED,
    TOO_LATE,
    TOO_MANY_HEADERS,
    Answer,
    RequestQueue,
    Tell,
    Ticket,
)
from ringfence.connectors.sdk import request_frames as frames
from ringfence.connectors.sdk.log_limit import LogLimit

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 10.0
_LAST_SECONDS: Final = 0.5
_MOST_WRITING: Final = 8 * 1024 * 1024
"""The maximum of unread bytes of answers, after which a web process's connection is closed."""


class Listener:
    """Listens from `start` to `stop`. `id` and `secret` are unique to this listener, since its port may be reused
    later.
    """

    def __init__(self, receiver: Receiver, requests: RequestQueue, timeout_s: float) -> None:
        self.id = secrets.token_hex(8)
        self.secret = secrets.token_hex(32)
        self.port = 0
        self._receiver = receiver
        self._requests = requests
        self._timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._host = ""
        self._limit = LogLimit()

    def start(self, host: str) -> None:
        """Raises `OSError` if it cannot listen there."""
        self._host = host
        self._thread.start()
        self._ready.wait(_START_SECONDS)
        if self._error is not None:
            raise self._error

    def tell(self, answers: Iterable[tuple[Tell, Answer]]) -> None:
        """Send answers, from any thread."""
        answer_list = list(answers)
        if answer_list and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_tell_all, answer_list)

    def stop(self) -> None:
        """Send the answers given so far, then stop."""
        if self._thread.is_alive() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)
            self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, self._host, 0))
            self.port = self._server.sockets[0].getsockname()[1]
        except OSError as error:
            self._error = error
        finally:
            self._ready.set()
        if self._error is None:
            self._loop.run_forever()
        self._loop.close()

    def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        self._keep(self._finish())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        self._last = self._loop.create_task(work)

    async def _finish(self) -> None:
        for writer in [*self._connections]:
            try:
                async with asyncio.timeout(_LAST_SECONDS):
                    await writer.drain()
            except (OSError, TimeoutError):
                pass
            writer.close()
        await asyncio.sleep(0)  # lets the transports close
        self._loop.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            content = {"max_body": self._receiver.most_body, "headers": self._receiver.needed_headers}
            await frames.greet_web(reader, writer, self.id, self.secret, content)
            while True:
                frame = await frames.read_frame(reader, frames.MOST_READ_HEADER, frames.MOST_READ_BODY)
                self._answer(writer, *frame)
        except (frames.NotTrusted, TimeoutError, ValueError) as error:
            why = str(error) if isinstance(error, frames.NotTrusted) else "no greeting in time, or no JSON"
            self._limit.warning(logger, "A connection to the webhook's listener was refused: %s", why)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the web process is gone; its requests are committed anyway
        finally:
            self._connections.discard(writer)
            writer.close()

    def _answer(self, writer: asyncio.StreamWriter, header: dict[str, Any], body: bytes) -> None:
        """Take one request. Whatever is wrong with it concerns its sender alone."""
        number = header.get("id")
        try:
            if frames.is_too_long(header):
                _send(writer, number, TOO_MANY_HEADERS)
            else:
                self._receive(writer, header, body)
        except Exception as error:  # noqa: BLE001 - of one request, on a connection that many share
            self._limit.warning(logger, "A request could not be read: %s", type(error).__name__)
            _send(writer, number, FAILED)

    def _receive(self, writer: asyncio.StreamWriter, header: dict[str, Any], body: bytes) -> None:
        """Take one request. It is answered now, after the commit, or after its timeout."""
        number = header["id"]
        timer: asyncio.TimerHandle | None = None

        def tell(answer: Answer) -> None:
            if timer is not None:
                timer.cancel()
            _send(writer, number, answer)

        outcome = self._receiver.receive(header["headers"], body, self._requests, tell, time.time_ns() // 1_000_000)
        if isinstance(outcome, Answer):
            _send(writer, number, outcome)
        else:
            timer = self._loop.call_later(self._timeout_s, self._expire, outcome, tell)

    def _expire(self, ticket: Ticket, tell: Tell) -> None:
        self._requests.withdraw(ticket, tell)
        tell(TOO_LATE)


def _tell_all(answers: list[tuple[Tell, Answer]]) -> None:
    for tell, answer in answers:
        tell(answer)


def _send(writer: asyncio.StreamWriter, number: object, answer: Answer) -> None:
    if writer.is_closing():
        return
    if writer.transport.get_write_buffer_size() > _MOST_WRITING:
        writer.close()
        return
    writer.write(frames.pack({"id": number, "status": answer.status, "text": answer.text, "again": answer.again}))
