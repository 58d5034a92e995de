"""A TCP proxy that reads Kafka's request framing: it holds chosen requests back and delivers them late.

What a network may do to a client that gives up on a request and sends it again: the first copy is still under way, and
arrives when the client is already in its next transaction.
"""

import base64
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from pathlib import Path

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import topic_ids
from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_ports
from tests.support.waiting import eventually


class Api(IntEnum):
    """The requests of a transaction."""

    PRODUCE = 0
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS = 24
    ADD_OFFSETS = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the client sent it, without the length in front."""

    api: int
    version: int
    correlation: int
    frame: bytes = field(repr=False)

    @classmethod
    def of(cls, frame: bytes) -> "Request":
        api, version, correlation = struct.unpack_from(">hhi", frame)
        return cls(api, version, correlation, frame)

    def names(self, text: str) -> bool:
        """Whether a topic or id of that name stands in it. Produce requests have the ids of topics: `topic_mark`."""
        return text.encode() in self.frame

    def holds(self, mark: bytes) -> bool:
        return mark in self.frame

    @property
    def commits(self) -> bool:
        """Of an EndTxn: commit, or else abort. Its last field; from version 3 on an empty list of tags follows."""
        assert self.api == Api.END_TXN
        return self.frame[-2 if self.version >= 3 else -1] == 1


class Fate(Enum):
    """What becomes of a request that a trap catches."""

    HOLD = auto()
    """It does not reach the broker, and the connection breaks."""
    SILENCE = auto()
    """It does not reach the broker, and nobody says so: the client waits its timeout out."""
    LOSE_ANSWER = auto()
    """The broker carries it out; the connection breaks in place of the answer."""
    PASS = auto()
    """It goes its way once `Trap.first` has returned."""


@dataclass(slots=True)
class Trap:
    """Catches the next `left` requests that `wants` says yes to. `caught` holds them."""

    wants: Callable[[Request], bool]
    fate: Fate
    left: int
    first: Callable[[], object] = lambda: None
    caught: list[Request] = field(default_factory=list)

    def wait(self, seconds: float = 30) -> Request:
        """The first one caught."""
        eventually(lambda: bool(self.caught), seconds, "the proxy caught the request")
        return self.caught[0]


class Proxy:
    """Listens on `port` of this machine and passes everything to `upstream`, except what traps are set for."""

    def __init__(self, port: int, upstream: int) -> None:
        self._upstream = ("127.0.0.1", upstream)
        self._traps: list[Trap] = []
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self.answered: list[Request] = []
        """Requests whose answers the clients got, in that order."""
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def set_trap(
        self,
        wants: Callable[[Request], bool],
        fate: Fate = Fate.HOLD,
        times: int = 1,
        first: Callable[[], object] = lambda: None,
    ) -> Trap:
        """`first` runs before a caught request with `Fate.PASS` goes on."""
        trap = Trap(wants, fate, times, first)
        with self._lock:
            self._traps.append(trap)
        return trap

    def clear(self) -> None:
        """Take all traps away, and break every connection."""
        with self._lock:
            self._traps.clear()
            self.answered.clear()
        self.cut()

    def cut(self) -> None:
        """Break every connection; traps stay."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def deliver(self, request: Request) -> bytes:
        """Bring a request to the broker now, over a connection of its own; the answer, behind its correlation id."""
        with socket.create_connection(self._upstream, timeout=30) as broker:
            _send(broker, request.frame)
            return next(_frames(broker))[4:]

    def count(self, api: Api) -> int:
        """How many requests of a kind were answered since the last `clear`."""
        return sum(request.api == api for request in list(self.answered))

    def close(self) -> None:
        self._server.close()
        self.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # closed
            try:
                broker = socket.create_connection(self._upstream, timeout=30)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            link = _Link(self, client, broker)
            with self._lock:
                self._links.add(link)
            link.start()

    def caught_by(self, request: Request) -> Trap | None:
        """The trap that this request falls into; the request counts as caught."""
        with self._lock:
            for trap in self._traps:
                if trap.left and trap.wants(request):
                    trap.left -= 1
                    if trap.fate is not Fate.LOSE_ANSWER:
                        trap.caught.append(request)
                    return trap
        return None

    def gone(self, link: "_Link") -> None:
        with self._lock:
            self._links.discard(link)


class _Link:
    """One client's connection, and ours to the broker for it."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._under_way: dict[int, Request] = {}
        self._doomed: dict[int, Trap] = {}

    def start(self) -> None:
        for work in (self._requests, self._answers):
            threading.Thread(target=self._run, args=(work,), name="proxy", daemon=True).start()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(OSError):
                work()
        finally:
            self.cut()

    def cut(self) -> None:
        """Break both ends; may be called twice."""
        for end in (self._client, self._broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._proxy.gone(self)

    def _requests(self) -> None:
        for frame in _frames(self._client):
            request = Request.of(frame)
            trap = self._proxy.caught_by(request)
            fate = trap.fate if trap else Fate.PASS
            if fate is Fate.HOLD:
                return
            if fate is Fate.SILENCE:
                continue
            if trap and fate is Fate.LOSE_ANSWER:
                self._doomed[request.correlation] = trap
            elif trap:
                trap.first()
            self._under_way[request.correlation] = request
            _send(self._broker, frame)

    def _answers(self) -> None:
        for frame in _frames(self._broker):
            (correlation,) = struct.unpack_from(">i", frame)
            request = self._under_way.pop(correlation)
            trap = self._doomed.pop(correlation, None)
            if trap is not None:
                trap.caught.append(request)
                return
            self._proxy.answered.append(request)
            _send(self._client, frame)


def _send(end: socket.socket, frame: bytes) -> None:
    end.sendall(struct.pack(">i", len(frame)) + frame)


def _frames(end: socket.socket) -> Iterator[bytes]:
    while True:
        head = _exactly(end, 4)
        if not head:
            return
        yield _exactly(end, *struct.unpack(">i", head))


def _exactly(end: socket.socket, size: int) -> bytes:
    """Empty where the other side has closed."""
    parts = []
    while size:
        part = end.recv(size)
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Proxied:
    """A broker with two ways to it."""

    direct: Connection
    through: Connection
    proxy: Proxy
    kafka: EmbeddedKafka


def topic_mark(connection: Connection, topic: str) -> bytes:
    """Return a topic's id as it stands in requests."""
    found = topic_ids(connection, [topic], Deadline.after(30))[topic]
    assert found is not None
    return base64.urlsafe_b64decode(found + "==")


@contextlib.contextmanager
def proxied_kafka(root: Path, kind: type[EmbeddedKafka] = EmbeddedKafka) -> Iterator[Proxied]:
    """Start a broker with a listener that advertises the proxy's address, so that its clients keep using the proxy."""
    front, hidden, direct, controller = free_ports(4)
    plain = f"PLAINTEXT://127.0.0.1:{direct}"
    kafka = kind(
        root / "kafka",
        direct,
        root / "kafka.log",
        short_lived=True,
        properties={
            "listeners": f"{plain},PROXIED://127.0.0.1:{hidden},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"{plain},PROXIED://127.0.0.1:{front}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        },
    )
    kafka.start()
    proxy = Proxy(front, hidden)
    try:
        # A client that waits long for each lost request would make slow tests.
        impatient = {"socket.timeout.ms": "1000", "reconnect.backoff.ms": "10", "reconnect.backoff.max.ms": "50"}
        yield Proxied(Connection(kafka.bootstrap), Connection(f"127.0.0.1:{front}", impatient), proxy, kafka)
    finally:
        proxy.close()
        kafka.kill()
