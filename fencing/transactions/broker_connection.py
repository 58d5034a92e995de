"""One client's connections to brokers, on the thread that calls: requests in order, answers in the same order.

A request without an answer is given up after a while, together with its connection: answers come in order.
"""

import contextlib
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from math import inf
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Final, TypeVar

from ringfence.connectors.sdk.kafka_settings.oauth_tokens import NoToken, TokenSource
from ringfence.fencing.errors import Fatal
from ringfence.fencing.transactions.error_codes import ErrorCode, name_of
from ringfence.fencing.transactions.login import login
from ringfence.fencing.transactions.messages import (
    ApiVersions,
    ApiVersionsResponse,
    Request,
    Response,
    SaslAuthenticate,
    SaslHandshake,
    kind_of,
    usable_versions,
)
from ringfence.fencing.transactions.wire import NO_TAGS, MalformedResponse, Reader, classic_string

_R = TypeVar("_R", bound=Response)
Address = tuple[str, int]
LookUp = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host's port to which a connection may go. Raises OSError if there is none."""

_HEAD: Final = struct.Struct(">ihhi")
_ANSWER: Final = struct.Struct(">ii")
_MOST_BYTES: Final = 64 * 1024 * 1024
_RECEIVE_BYTES: Final = 256 * 1024
_SEND_BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Room for some batches, which are on their way while the next ones are made."""
_SMALL_BYTES: Final = 32_768
"""Up to this size, parts are joined."""
_PLAIN_HEADS: Final = frozenset({ApiVersions.api, SaslHandshake.api})
"""Requests whose answers have a head without tags."""
_RENEW_AT: Final = 0.8
"""Of a login's lifetime: after it, the connection takes no further request."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach brokers. mechanism: "" for no login; seconds: for a connection and its login; idle_s: after which a
    connection without requests is not used any more, 0 for never; send_buffer, receive_buffer: the sockets', in bytes,
    0 for what is best here.
    """

    client_id: str
    software: str
    look_up: LookUp
    tls: ssl.SSLContext | None
    mechanism: str = ""
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tokens: TokenSource | None = None
    seconds: float = 5.0
    idle_s: float = 0.0
    send_buffer: int = 0
    receive_buffer: int = 0


@dataclass(slots=True)
class PendingRequest:
    """A request on its way. number: the state machine's; start: where its bytes begin in the connection's stream."""

    number: int
    request: Request
    version: int
    correlation: int
    start: int
    at: float


class Lane(Enum):
    """What a connection is for. A broker takes the next request of a connection when it has answered the last one: what
    is to be done beside others goes in a lane of its own.
    """

    ALL = auto()
    GROUP = auto()
    """A group's offsets, which a transaction commits beside its records."""


class ConnectionBroken(Exception):
    """The connection has ended, or could not be made."""


class BrokerConnection:
    """Connects, and logs in, when it is created. Raises `ConnectionBroken`; `Fatal` for a login that is refused."""

    def __init__(self, address: Address, access: Access, lane: Lane = Lane.ALL) -> None:
        self.address = address
        self.lane = lane
        self._access = access
        self._head = classic_string(access.client_id)
        self._correlation = 0
        self._out: deque[memoryview] = deque()
        self._stream_end = self._sent_bytes = 0
        self._in = bytearray()
        self._ended = False
        self.events = 0
        """What the driver waits for."""
        self._versions: dict[tuple[type, bool, bool], int] = {}
        self.in_flight: deque[PendingRequest] = deque()
        self._renew_at = float("inf")
        self._used_at = time.monotonic()
        try:
            self._socket = self._connect()
        except (OSError, ValueError) as error:  # a name that is too long for DNS is a ValueError
            raise ConnectionBroken(f"{address[0]}:{address[1]}: {error}") from error
        try:
            self.broker = self._greet()
            if access.mechanism:
                self._log_in()
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            raise

    def _connect(self) -> socket.socket:
        host, port = self.address
        error: OSError = OSError("the name has no address")
        for each in self._access.look_up(host, port):
            try:
                plain = socket.create_connection((each, port), self._access.seconds)
            except OSError as refused:
                error = refused
                continue
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                access = self._access
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, access.send_buffer or _SEND_BUFFER_BYTES)
                if access.receive_buffer:
                    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, access.receive_buffer)
                tls = access.tls
                return plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
            except BaseException:
                plain.close()
                raise
        raise error

    def _greet(self) -> ApiVersionsResponse:
        answer = self._ask(ApiVersions(self._access.software), 3, ApiVersionsResponse)
        if answer.error:
            raise Fatal(
                f"The broker {self.address[0]}:{self.address[1]} is too old ({name_of(answer.error)}): "
                "transactions need Kafka 2.8 or newer"
            )
        return answer

    def _log_in(self) -> None:
        access = self._access
        where = f"{self.address[0]}:{self.address[1]}"
        shake = self._ask(SaslHandshake(access.mechanism), 1, Response)
        code = getattr(shake, "error", 0)
        if code:
            offered = ", ".join(getattr(shake, "mechanisms", ()))
            raise Fatal(f"The broker {where} offers no login by {access.mechanism}, but: {offered}", name_of(code))
        exchange = login(access.mechanism, access.user, access.password, access.tokens)
        try:
            token, lifetime_ms = next(exchange), 0
        except NoToken as error:
            if error.refused:
                raise Fatal(f"No login at {where}. {error}", ErrorCode.SASL_AUTHENTICATION_FAILED.name) from error
            raise ConnectionBroken(f"{where}: {error}") from error
        with contextlib.suppress(StopIteration):
            while True:
                answer = self._ask(SaslAuthenticate(token), 2, Response)
                code = getattr(answer, "error", 0)
                if code:
                    if access.tokens is not None and access.tokens.forget():
                        raise ConnectionBroken(f"{where} refuses a token, and another one is asked for")
                    raise Fatal(f"The login at {where} was refused", ErrorCode.SASL_AUTHENTICATION_FAILED.name)
                lifetime_ms = getattr(answer, "lifetime_ms", 0)
                token = exchange.send(getattr(answer, "auth", b""))
        if lifetime_ms > 0:
            self._renew_at = time.monotonic() + lifetime_ms / 1000 * _RENEW_AT

    def _ask(self, request: Request, version: int, kind: type[_R]) -> _R:
        """Send a request and wait for its answer, before others may be sent."""
        try:
            self._socket.sendall(b"".join(self._frame(request, version)))
            (size,) = struct.unpack(">i", self._receive(4))
            if not 0 < size <= _MOST_BYTES:
                raise MalformedResponse(f"{size} bytes")
            answer = request.decode(version, self._body(self._receive(size), request))
        except (OSError, MalformedResponse) as error:
            raise ConnectionBroken(f"{self.address[0]}:{self.address[1]}: {error}") from error
        assert isinstance(answer, kind)
        return answer

    def _receive(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(size)
            if not part:
                raise OSError("the broker has closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _frame(self, request: Request, version: int) -> list[bytes]:
        self._correlation += 1
        tags = b"" if request.api == SaslHandshake.api else NO_TAGS
        body = request.encode(version)
        size = 8 + len(self._head) + len(tags) + sum(map(len, body))
        return [_HEAD.pack(size, request.api, version, self._correlation) + self._head + tags, *body]

    def _body(self, answer: bytes, request: Request) -> Reader:
        reader = Reader(answer)
        if reader.i32() != self._correlation and not self.in_flight:
            raise MalformedResponse("an answer to another request")
        if request.api not in _PLAIN_HEADS:
            reader.tags()
        return reader

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out)

    def is_worn_out(self, now: float) -> bool:
        """Return whether further requests need another connection: its login is nearly over, or it was idle."""
        idle_s = self._access.idle_s
        return now >= self._renew_at or (idle_s > 0 and not self.in_flight and now >= self._used_at + idle_s)

    def send(self, number: int, request: Request, now: float, version: int) -> None:
        """Send a request, as far as the network takes it at once. version: `check_version`'s. Raises
        `ConnectionBroken`.
        """
        self._used_at = now
        parts = self._frame(request, version)
        self.in_flight.append(PendingRequest(number, request, version, self._correlation, self._stream_end, now))
        size = sum(map(len, parts))
        self._stream_end += size
        if size < _SMALL_BYTES:
            whole = b"".join(parts)
            progress = 0 if self._out else self._try(whole)
            if progress == size:
                return
            parts = [whole[progress:]]
        self._out.extend(map(memoryview, filter(None, parts)))
        self.write()

    def _try(self, data: bytes) -> int:
        """Send what the network takes at once; return how much that is."""
        try:
            progress = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except OSError as error:
            raise ConnectionBroken(f"{self.address[0]}:{self.address[1]}: {error}") from error
        self._sent_bytes += progress
        return progress

    def check_version(self, request: Request) -> int:
        """Return the version that the request goes in. Raises `Fatal` if the broker does not know it."""
        kind = kind_of(request)
        version = self._versions.get(kind, -1)
        if version >= 0:
            return version
        first, last = usable_versions(request)
        low, high = self.broker.ranges.get(request.api, (0, -1))
        version = min(last, high)
        if version < max(first, low):
            raise Fatal(
                f"The broker {self.address[0]}:{self.address[1]} has {type(request).__name__} in versions {low} to "
                f"{high}, and {first} to {last} would be needed, which Kafka 2.8 and newer have"
            )
        self._versions[kind] = version
        return version

    def write(self) -> None:
        """Write as much as the network takes at once."""
        try:
            while self._out:
                if isinstance(self._socket, ssl.SSLSocket):
                    size = self._socket.send(self._out[0])
                else:
                    size = self._socket.sendmsg([*self._out] if len(self._out) <= 64 else [*self._out][:64])
                self._sent_bytes += size
                self._drop(size)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise ConnectionBroken(f"{self.address[0]}:{self.address[1]}: {error}") from error

    def _drop(self, size: int) -> None:
        while size:
            first = self._out[0]
            if len(first) > size:
                self._out[0] = first[size:]
                return
            size -= len(first)
            self._out.popleft()

    def read(self) -> list[tuple[int, Response]]:
        """Return the answers that have arrived, with their requests' numbers. Raises `ConnectionBroken`."""
        try:
            while True:
                part = self._socket.recv(_RECEIVE_BYTES)
                if not part:
                    self._ended = True
                    break
                self._in += part
                if len(part) < _RECEIVE_BYTES and not isinstance(self._socket, ssl.SSLSocket):
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            raise ConnectionBroken(f"{self.address[0]}:{self.address[1]}: {error}") from error
        try:
            answers = self._answers()
            if self._ended and not answers:  # what has arrived before the end counts
                raise ConnectionBroken(f"{self.address[0]}:{self.address[1]} has closed the connection")
            return answers
        except (MalformedResponse, ValueError) as error:
            raise ConnectionBroken(f"{self.address[0]}:{self.address[1]}: an unreadable answer: {error}") from error

    def _answers(self) -> list[tuple[int, Response]]:
        answers = []
        content, at = self._in, 0
        try:
            while len(content) - at >= _ANSWER.size:
                size, correlation = _ANSWER.unpack_from(content, at)
                end = at + 4 + size
                if not 4 <= size <= _MOST_BYTES:
                    raise MalformedResponse(f"{size} bytes")
                if len(content) < end:
                    break
                with memoryview(content) as view:
                    answer = bytes(view[at + _ANSWER.size : end])
                answers.append(self._decode(correlation, Reader(answer)))
                at = end
        finally:
            del content[:at]
        return answers

    def _decode(self, correlation: int, reader: Reader) -> tuple[int, Response]:
        """Decode the answer to the oldest request, which stays in flight if that cannot be done."""
        if not self.in_flight:
            raise MalformedResponse("there was no request")
        pending = self.in_flight[0]
        if correlation != pending.correlation:
            raise MalformedResponse("it belongs to another request")
        if pending.request.api not in _PLAIN_HEADS:
            reader.tags()
        answer = pending.request.decode(pending.version, reader)
        self.in_flight.popleft()
        return pending.number, answer

    def extend(self, until: float) -> None:
        """The broker reads nothing more until then: requests on their way count from that time on."""
        for each in self.in_flight:
            each.at = max(each.at, until)

    def has_left(self, pending: PendingRequest) -> bool:
        """Return whether any byte of the request has left this process."""
        return pending.start < self._sent_bytes

    def close(self) -> None:
        self._socket.close()


TakeAnswer = Callable[[int, Response, float], None]
"""Called with the number of a request, its answer, and the time."""
NoteLost = Callable[[BrokerConnection, str], None]
"""Called with a connection that has ended, and why. What is in flight there has no answer."""


class Connections:
    """At most one for each address and lane, beside those that only take their last answers."""

    def __init__(
        self,
        access: Access,
        request_s: float,
        take_answer: TakeAnswer,
        note_lost: NoteLost,
        note_opened: Callable[[BrokerConnection], None] = lambda _: None,
        woken: socket.socket | None = None,
    ) -> None:
        """request_s: after which a request without an answer is given up. woken: ends a wait when it has bytes."""
        self.looked_at = 0.0
        """When the network was looked at last."""
        self._access = access
        self._request_s = request_s
        self._take_answer = take_answer
        self._note_lost = note_lost
        self._note_opened = note_opened
        self._woken = woken
        self._selector = DefaultSelector()
        if woken is not None:
            self._selector.register(woken, EVENT_READ)
        self._give_up_at = 0.0
        self._by_address: dict[tuple[Address, Lane], BrokerConnection] = {}
        self._retiring: set[BrokerConnection] = set()

    def __iter__(self) -> Iterator[BrokerConnection]:
        """Yield those that take requests."""
        return iter(self._by_address.values())

    def open(self, address: Address, now: float, lane: Lane = Lane.ALL) -> BrokerConnection:
        """Return the connection to an address. Raises `ConnectionBroken`; `Fatal` for a login that is refused."""
        connection = self._by_address.get((address, lane))
        if connection is not None and connection.is_worn_out(now):
            del self._by_address[address, lane]
            self._retire(connection)
            connection = None
        if connection is None:
            connection = self._by_address[address, lane] = BrokerConnection(address, self._access, lane)
            self._selector.register(connection, EVENT_READ, connection)
            connection.events = EVENT_READ
            self._note_opened(connection)
        return connection

    def send(self, connection: BrokerConnection, number: int, request: Request, now: float, version: int) -> bool:
        """Send a request, or as much of it as the kernel takes now. Return False if the connection is lost."""
        try:
            connection.send(number, request, now, version)
            self._watch(connection)
        except ConnectionBroken as broken:
            self._lose(connection, str(broken))
            return False
        return True

    def wait(self, seconds: float) -> None:
        """Wait at most so long for the network, and take what has arrived."""
        ready = self._selector.select(max(0.0, seconds))
        now = self.looked_at = time.monotonic()
        for key, events in ready:
            if key.data is None:
                assert self._woken is not None
                self._woken.recv(4096)
            elif not key.data.closed:  # by what was served before it
                self._serve(key.data, events, now)
        if now >= self._give_up_at:
            self.give_up_slow(now)

    def next_give_up(self) -> float:
        """Return when the next request is to be given up, infinite for never. From then on, `wait` gives it up."""
        ends = [each.in_flight[0].at + self._request_s for each in self._all() if each.in_flight]
        self._give_up_at = min(ends, default=inf)
        return self._give_up_at

    def give_up_slow(self, now: float) -> None:
        """Lose the connections whose oldest request has waited for too long."""
        for each in self._all():
            if each.in_flight and now >= each.in_flight[0].at + self._request_s:
                self._lose(each, f"{each.address[0]}:{each.address[1]} has not answered for {self._request_s:g} s")

    def close(self) -> None:
        """End all of them. What is on its way may still arrive."""
        self._selector.close()
        for each in self._all():
            each.close()
        self._by_address.clear()
        self._retiring.clear()

    def _all(self) -> Iterator[BrokerConnection]:
        return chain(list(self._by_address.values()), list(self._retiring))

    def _serve(self, connection: BrokerConnection, events: int, now: float) -> None:
        try:
            if events & EVENT_WRITE:
                connection.write()
            if events & EVENT_READ:  # also errors, and the end
                for number, answer in connection.read():
                    if answer.throttle_ms > 0:
                        connection.extend(now + answer.throttle_ms / 1000)
                    self._take_answer(number, answer, now)
            self._watch(connection)
        except ConnectionBroken as broken:
            self._lose(connection, str(broken))

    def _watch(self, connection: BrokerConnection) -> None:
        if self._retiring and connection in self._retiring and not connection.in_flight:
            self._retiring.discard(connection)
            self._drop(connection)
            return
        events = EVENT_READ | EVENT_WRITE if connection.wants_to_write else EVENT_READ
        if connection.events != events:
            self._selector.modify(connection, events, connection)
            connection.events = events

    def _retire(self, connection: BrokerConnection) -> None:
        """Let the connection take its answers, and close it then."""
        if connection.in_flight:
            self._retiring.add(connection)
        else:
            self._drop(connection)

    def _lose(self, connection: BrokerConnection, why: str) -> None:
        key = connection.address, connection.lane
        if self._by_address.get(key) is connection:
            del self._by_address[key]
        self._retiring.discard(connection)
        self._drop(connection)
        self._note_lost(connection, why)

    def _drop(self, connection: BrokerConnection) -> None:
        self._selector.unregister(connection)
        connection.close()
