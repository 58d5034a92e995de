"""The admin clients of this process, one for each cluster and principal, kept for the next request."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors


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
class _Client:
    """An admin client. since: when it was created; used_at: when it was last used, both in monotonic time."""

    client: AdminClient
    since: float
    used_at: float


_Key = tuple[str, bool, tuple[tuple[str, str], ...]]
_clients: dict[_Key, _Client] = {}
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
            entry = _clients[key] = _Client(client, now, now)
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
