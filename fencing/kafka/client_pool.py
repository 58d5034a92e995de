"""Keeps clients for the next use, since a login costs more than the requests after it, and closes them safely.

Beside pools, these are the admin clients of this process, one for each cluster and principal.

Each client has a thread and connections, and keeps reconnecting until it is closed. So a pool closes clients that have
not been used for a while, even if it is not called again.
"""

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors


def set_up_clients() -> None:
    """Let librdkafka and OpenSSL set themselves up, and keep nothing else: no thread, which a fork would not have."""
    nowhere = {"bootstrap.servers": "", "log_level": 0}
    Producer(nowhere)
    Consumer({**nowhere, "group.id": "none"}).close()
    gc.collect()  # the producer ends with its last reference


class ClosedProducer:
    """Replaces a closed producer: its queue is empty, and each call raises `Fatal`."""

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_args: object, **_more: object) -> NoReturn:
            raise Fatal(f"The producer is closed already: {name}")

        return refuse


def drop(producer: Producer | ClosedProducer, log: logging.Logger) -> Any:
    """Drop queued records and release the client; return its replacement. Records in flight may still arrive.

    The client ends, with its threads and connections, when its last reference is gone, so the caller must not keep one.
    A call on another thread ends first; `Producer.close` would free the client during it.
    """
    if isinstance(producer, ClosedProducer):
        return producer
    try:
        with kafka_errors("closing the producer"):
            producer.purge()
            producer.flush(0)
    except FencingError as error:
        # After a fatal error, every call raises it, also this one. The first call has reported it.
        log.debug("%s", error)
    return ClosedProducer()


class Gate:
    """Serialises the calls of a consumer (`with gate:`), and refuses them after `close`.

    librdkafka frees a consumer in `close`, even while another thread uses it: `close` during a `poll` was seen to wait
    forever. Here, `close` waits for the current call, and later calls raise `Fatal`. Inside a call, such as in a
    rebalance callback, the same thread may call again.
    """

    def __init__(self, what: str) -> None:
        """what: the consumer's name in errors."""
        self._what = what
        self._turn = threading.RLock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` has been called, also while it runs."""
        return self._closed

    def __enter__(self) -> None:
        self._turn.acquire()
        if self._closed:
            self._turn.release()
            raise Fatal(f"{self._what} is closed already")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turn.release()

    def close(self, close: Callable[[], None]) -> None:
        """Call `close` when no other call is running. Later calls do nothing."""
        with self._turn:
            if not self._closed:
                self._closed = True
                close()


IDLE_SECONDS: Final = 30.0
_MOST_IDLE: Final = 8

Login = tuple[str, frozenset[tuple[str, str]]]


class Closable(Protocol):
    def close(self) -> None: ...


_Client = TypeVar("_Client", bound=Closable)
_T = TypeVar("_T")


def login_of(connection: Connection) -> Login:
    """Return what distinguishes two logins: the cluster and the credentials."""
    return connection.bootstrap, frozenset(connection.settings.items())


class ClientPool(Generic[_Client]):
    """A thread-safe pool. Each client has one user at a time. After an error, a client is closed."""

    def __init__(self, make: Callable[[Connection], _Client], idle_seconds: float = IDLE_SECONDS) -> None:
        self._make = make
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Login, _Client]] = []
        self._timer: threading.Timer | None = None
        _pools.add(self)

    @contextmanager
    def lease(self, connection: Connection, make: Callable[[Connection], _Client] | None = None) -> Iterator[_Client]:
        """Yield a client with this connection's login. make: creates a missing one, by default the pool's function."""
        login = login_of(connection)
        client = self._take(login) or (make or self._make)(connection)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        with self._lock:
            self._idle.append((time.monotonic(), login, client))
            if self._timer is None:
                self._start_timer()
        self._close_old()

    def call(
        self, connection: Connection, ask: Callable[[_Client], _T], make: Callable[[Connection], _Client] | None = None
    ) -> _T:
        """Return the result of `ask`. It may be called twice: a kept client may have lost its connections, so after its
        `Retriable` error it is called again with a new client.
        """
        is_new = False

        def note(connection: Connection) -> _Client:
            nonlocal is_new
            is_new = True
            return (make or self._make)(connection)

        try:
            with self.lease(connection, note) as client:
                return ask(client)
        except Retriable:
            if is_new:
                raise
        new = note(connection)
        try:
            return ask(new)
        finally:
            new.close()

    def close(self) -> None:
        """Close the idle clients. The pool may be used again."""
        with self._lock:
            old, self._idle = self._idle, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        for _, _, client in old:
            client.close()

    def _take(self, login: Login) -> _Client | None:
        self._close_old()
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place][1] == login:
                    return self._idle.pop(place)[2]
        return None

    def _close_old(self) -> None:
        now = time.monotonic()
        with self._lock:
            fresh = [entry for entry in self._idle if now - entry[0] < self._idle_seconds][-_MOST_IDLE:]
            old = [entry[2] for entry in self._idle if entry not in fresh]
            self._idle = fresh
        for client in old:
            client.close()

    def _start_timer(self) -> None:
        self._timer = threading.Timer(self._idle_seconds, self._tidy)
        self._timer.name, self._timer.daemon = "client-pool", True
        self._timer.start()

    def _tidy(self) -> None:
        """Close clients that were idle for too long. It runs on the timer's thread while there are clients."""
        self._close_old()
        with self._lock:
            if self._timer is threading.current_thread():  # otherwise the pool was closed in the meantime
                self._timer = None
                if self._idle:
                    self._start_timer()


_pools: "weakref.WeakSet[ClientPool[Any]]" = weakref.WeakSet()


def close_idle_clients() -> None:
    """Close the idle clients of every pool: at the end of a process, or of its use of a cluster."""
    for pool in list(_pools):
        pool.close()


def set_password(connection: Connection, user: str, password: str, iterations: int, deadline: Deadline) -> None:
    """Create the user for SCRAM-SHA-512, or give it this password. Raises `FencingError`."""
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, iterations)
    change = UserScramCredentialUpsertion(user, mechanism, password.encode())
    with kafka_errors(f"setting the password of Kafka's user {user}"):
        # Not one that is kept: its broker ends right after this.
        settings = connection.librdkafka()
        client = connection.create(lambda: AdminClient(settings))  # type: ignore[arg-type]
        futures = client.alter_user_scram_credentials([change], request_timeout=max(1.0, deadline.remaining))
        futures[user].result(max(1.0, deadline.remaining))


_YOUNG_SECONDS = 5.0
_IDLE_SECONDS = 300.0


@dataclass(slots=True)
class _AdminClient:
    """An admin client. since: when it was created; used_at: when it was last used, both in monotonic time."""

    client: AdminClient
    since: float
    used_at: float


_Key = tuple[str, bool, tuple[tuple[str, str], ...]]
_clients: dict[_Key, _AdminClient] = {}
_turn = threading.Lock()


def _key(connection: Connection) -> _Key:
    return connection.bootstrap, connection.guarded, tuple(sorted(connection.settings.items()))


def admin_client(connection: Connection) -> AdminClient:
    """Return the admin client of a cluster and principal: they are thread-safe, and each has its own threads.

    Keep the client until its answers have arrived: they are lost when its last reference is gone.
    """
    key, now = _key(connection), time.monotonic()
    with _turn:
        for other in [other for other, one in _clients.items() if now - one.used_at > _IDLE_SECONDS]:
            del _clients[other]
        entry = _clients.get(key)
        if entry is None:
            with kafka_errors("creating the admin client"):
                settings = connection.librdkafka()
                client = connection.create(lambda: AdminClient(settings))  # type: ignore[arg-type]
            entry = _clients[key] = _AdminClient(client, now, now)
        entry.used_at = now
        return entry.client


def forget_admin_clients() -> None:
    """Close all admin clients, at the end of a process or of its use of a cluster."""
    with _turn:
        _clients.clear()


@contextmanager
def asking(connection: Connection, doing: str) -> Iterator[AdminClient]:
    """Yield the client, and translate errors. After a retriable error, the client is not used again.

    Measured with confluent-kafka 2.16: after a broker's restart, a client kept using the old leader epochs, or timed
    out on each call, for minutes; a new one got answers at once.
    """
    client = admin_client(connection)
    try:
        with kafka_errors(doing):
            yield client
    except Retriable:
        retire(connection, client)
        raise


def retire(connection: Connection, client: AdminClient) -> None:
    with _turn:
        entry = _clients.get(_key(connection))
        # If the broker is down, a new client would not help.
        if entry is not None and entry.client is client and time.monotonic() - entry.since >= _YOUNG_SECONDS:
            del _clients[_key(connection)]


def login_refused(connection: Connection, seconds: float = 3.0) -> bool:
    """Return whether a broker answers and refuses these credentials."""
    errors: list[KafkaError] = []
    try:
        settings = {**connection.librdkafka(), "error_cb": errors.append}
    except FencingError as error:  # its token was refused
        return error.code == "SASL_AUTHENTICATION_FAILED"
    with kafka_errors("creating the admin client"):
        client = connection.create(lambda: AdminClient(settings))  # type: ignore[arg-type]
    deadline = Deadline.after(seconds)
    while not deadline.expired:
        client.poll(0.1)
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            return True
    return False
