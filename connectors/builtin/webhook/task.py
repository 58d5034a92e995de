"""Takes requests, and answers them when their transaction is committed.

Its listener takes requests from web processes over TCP, and sends the answers. It runs on a thread of its own.
"""

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from ringfence.connectors.api import (
    ConnectorError,
    Endpoint,
    OffsetRecord,
    ParsedConfig,
    RecordBatch,
    RecordRefused,
    SourceRecord,
    SourceTask,
)
from ringfence.connectors.builtin.webhook import settings as names
from ringfence.connectors.builtin.webhook.request_parsing import Receiver, RequestRejected, leaves_key_unsigned
from ringfence.connectors.builtin.webhook.request_queue import (
    FAILED,
    HEAD,
    TOO_LARGE,
    TOO_LATE,
    TOO_MANY_HEADERS,
    UNCONVERTIBLE,
    UNCONVERTIBLE_NOW,
    Answer,
    KeyWindow,
    RequestQueue,
    Tell,
    Ticket,
)
from ringfence.connectors.builtin.webhook.settings import CONFIG_DEF
from ringfence.connectors.sdk import request_frames as frames
from ringfence.connectors.sdk.log_limit import LogLimit
from ringfence.connectors.sdk.worker_limits import current

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


_IDLE_SECONDS = 0.25
_REST_SECONDS = 0.008
"""Seconds between two transactions, in which requests gather. While the broker still writes the markers of the previous
transaction, a new one is refused (CONCURRENT_TRANSACTIONS), and librdkafka waits for 20 ms.
"""


class WebhookSourceTask(SourceTask):
    """One request is one record. An answer of 2xx is given only in `commit`, or for a key that was committed before.

    A request is transformed and converted before it is accepted: what cannot become a record is refused, and nothing
    else happens, neither to the task nor to other requests.

    So an attempt that was superseded, or whose transaction is aborted, never answers with 2xx for what it has taken:
    its senders get 503, or no answer, and send again.
    """

    version: ClassVar[str | None] = "1.0.0"
    shares_process = True
    _listener: Listener | None = None  # so that stop() can follow a failed start
    _requests: RequestQueue | None = None

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG_DEF.parse(config)
        self._topic = settings.string(names.TOPIC)
        self._rested = 0.0
        """When the next transaction may begin, on the monotonic clock."""
        self._batch = settings.integer(names.BATCH)
        self._refusals = LogLimit()
        receiver = _make_receiver(settings)
        self._example: Ticket | None = None
        if config.get(names.PREVIEW):
            self._example = _read_example(receiver, settings.string(names.PREVIEW_BODY), settings.string(names.KEY))
            return
        window = KeyWindow(settings.integer(names.WINDOW))
        if receiver.keyed:
            window.load(self.context.offset_reader)
        self._requests = RequestQueue(
            window,
            most=settings.integer(names.QUEUE),
            most_bytes=settings.integer(names.QUEUE_BYTES),
            most_keys=settings.integer(names.MOST_KEYS),
        )
        self._window = window
        if leaves_key_unsigned(settings.string(names.SIGNATURE), settings.string(names.KEY)) and (
            not receiver.replays_checked
        ):
            logger.warning(
                "%s=none: whoever has seen a signed request can send it again under any key, and each is a record",
                names.REPLAY,
            )
        self._measure()
        self._listen(receiver, settings.integer(names.RESPONSE_TIMEOUT) / 1000)

    def _listen(self, receiver: Receiver, timeout_s: float) -> None:
        assert self._requests is not None
        host, advertised = current().listen_addresses()
        self._listener = Listener(receiver, self._requests, timeout_s)
        try:
            self._listener.start(host)
        except OSError as error:
            raise ConnectorError(
                f"The task cannot listen on {host}: {error}. Correct the worker's listen.host."
            ) from error
        self.context.announce_endpoint(
            Endpoint(self._listener.id, advertised, self._listener.port, self._listener.secret)
        )
        logger.info("Web processes send requests to %s:%d", advertised, self._listener.port)

    def _measure(self) -> None:
        metrics = self.context.metrics
        self._waiting = metrics.gauge("webhook_requests_waiting", "Requests that wait for their commit")
        self._refused = metrics.gauge(
            "webhook_requests_refused", "Requests answered with 503 because the queue or the window is full"
        )
        self._duplicates = metrics.gauge("webhook_duplicates", "Requests whose key was known")
        self._replays = metrics.gauge(
            "webhook_replays", "Requests refused because their body was known under another key"
        )
        self._unconvertible = metrics.gauge("webhook_requests_unconvertible", "Requests that could not become a record")
        self._keys = metrics.gauge("webhook_keys", "Idempotency keys that are remembered")

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        requests = self._requests
        if requests is None:
            example, self._example = self._example, None
            return [self._record(example, {})] if example is not None else None
        rest = self._rested - time.monotonic()
        if rest > 0:
            self.context.wait(rest)
        tickets = requests.take(self._batch, _IDLE_SECONDS)
        self._waiting.set(requests.waiting)
        self._refused.set(requests.refused)
        self._duplicates.set(requests.duplicates)
        self._replays.set(requests.replays)
        self._keys.set(len(self._window))
        tickets, records = self._admit(requests, tickets)
        self._unconvertible.set(requests.unconvertible)
        pages, head = requests.write_keys(tickets, time.time_ns() // 1_000_000)
        if pages:
            records += [OffsetRecord(partition, offset) for partition, offset in [*pages, (HEAD, head)]]
        return records or None

    def _admit(self, requests: RequestQueue, tickets: Sequence[Ticket]) -> tuple[list[Ticket], list[SourceRecord]]:
        """Return the requests that become records, with these. The senders of the others are answered."""
        admitted: list[Ticket] = []
        records: list[SourceRecord] = []
        answers: list[tuple[Tell, Answer]] = []
        head = requests.head
        outcomes = self.context.admit([self._record(ticket, head) for ticket in tickets]) if tickets else ()
        for ticket, outcome in zip(tickets, outcomes, strict=True):
            if isinstance(outcome, RecordRefused):
                answers += requests.refuse(ticket, _answer_to(outcome))
                self._refusals.warning(logger, "A request is refused, since it can be no record: %s", outcome)
            else:
                admitted.append(ticket)
                records.append(outcome)
        if answers and self._listener is not None:
            self._listener.tell(answers)
        return admitted, records

    def _record(self, ticket: Ticket, head: Mapping[str, object]) -> SourceRecord:
        return SourceRecord(
            HEAD, head, self._topic, ticket.value, ticket.key or None, ticket.headers, ticket.at_ms
        )  # fmt: skip

    def commit(self) -> None:
        """Answer the senders: only now are their requests committed."""
        if self._requests is not None and self._listener is not None:
            self._rested = time.monotonic() + _REST_SECONDS
            self._listener.tell(self._requests.commit())

    def stop(self) -> None:
        """Answer waiting senders with 503: this instance commits nothing more."""
        if self._requests is not None and self._listener is not None:
            self._listener.tell(self._requests.close())
        if self._listener is not None:
            self._listener.stop()


def _answer_to(refusal: RecordRefused) -> Answer:
    """Return what the sender hears: nothing of the connector's settings, nor of other systems."""
    if refusal.again:
        return UNCONVERTIBLE_NOW
    return TOO_LARGE if refusal.too_large else UNCONVERTIBLE


def _make_receiver(settings: ParsedConfig) -> Receiver:
    try:
        return Receiver(settings)
    except ValueError as error:
        raise ConnectorError(f"{names.SECRET} is {error}: copy it from the sender.") from error


def _read_example(receiver: Receiver, body: str, key: str) -> Ticket:
    headers = [(key.removeprefix(names.HEADER_KEY).strip(), "example")] if key.startswith(names.HEADER_KEY) else []
    try:
        return receiver.read(headers, body.encode(), time.time_ns() // 1_000_000, signed=False)
    except RequestRejected as refused:
        raise ConnectorError(f"{names.PREVIEW_BODY} would be refused: {refused}") from refused
