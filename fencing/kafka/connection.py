"""The connection to a cluster, as plain data that is sent to executors as JSON."""

import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ringfence.connectors.sdk.guarded_connects import allows_unlisted_names, run_guarded
from ringfence.connectors.sdk.kafka_settings import oauth_tokens
from ringfence.fencing.errors import Fatal, Retriable

_Client = TypeVar("_Client")

GUARDED = "guarded://"
"""Stands for kafka-python's `proxy_url`: its sockets are made by `kafka_python_client.GuardedSocket`."""
_JAVA_TO_PYTHON = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster and the credentials for it.

    settings: librdkafka's names, for clients of any kind (security, network). reading: additional ones for consumers.
    guarded: whether it is another cluster than the worker's, so that clients have to connect to allowed addresses
    only, those of brokers that the cluster names included.
    """

    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_id: str = "ringfence"
    reading: Mapping[str, str] = field(default_factory=dict, repr=False)
    guarded: bool = False

    def librdkafka(self, **more: object) -> dict[str, object]:
        """Return a librdkafka configuration, with the keywords added (`_` stands for `.`). For a login that needs a
        token, raises `Retriable` without one, and `Fatal` if it is refused.
        """
        base: dict[str, object] = {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            # A broker that restarts must be found again within a second, not after the default ten.
            "reconnect.backoff.max.ms": 1000,
            "socket.keepalive.enable": True,
            # The calls that fail report connection errors once, instead of each retry.
            "log.connection.close": False,
            "log_level": 2,
        }
        with _token_errors():
            base |= oauth_tokens.for_librdkafka(self.settings)
        return {**base, **{key.replace("_", "."): value for key, value in more.items()}}

    def create(self, make: Callable[[], _Client]) -> _Client:
        """Return the client of librdkafka that `make` creates. One that is guarded is created where its threads are
        held to `egress.allow`.
        """
        if not self.guarded:
            return make()
        names = [self.bootstrap]
        if allows_unlisted_names():
            from ringfence.fencing.kafka.kafka_python_client import broker_hosts  # a web process does without it

            names += broker_hosts(self)
        return run_guarded(make, names)

    def for_reading(self, **more: object) -> dict[str, object]:
        """Return the configuration of a consumer. No setting can replace `more`."""
        return {**self.librdkafka(), **self.reading, **self.librdkafka(**more)}

    def for_writing(self, **more: object) -> dict[str, object]:
        """Return the configuration of an idempotent producer.

        It has one request in flight for each broker. With more, the threads of librdkafka's idempotent producers run
        without a pause as long as a partition has no leader: when a broker died, each of our processes took all
        processors that it could get until Kafka had other leaders (librdkafka's issue 3692).
        """
        return self.librdkafka(enable_idempotence=True, max_in_flight_requests_per_connection=1, **more)

    def kafka_python(self) -> dict[str, object]:
        """Return the configuration for kafka-python. Raises as `librdkafka` does."""
        options: dict[str, object] = {
            _JAVA_TO_PYTHON[key]: value.upper() if key == "security.protocol" else value
            for key, value in self.settings.items()
            if key in _JAVA_TO_PYTHON
        }
        if self.settings.get("ssl.endpoint.identification.algorithm") == "none":
            options["ssl_check_hostname"] = False
        if any(key.endswith(".pem") for key in self.settings):
            options["ssl_context"] = tls_context(self.settings)
        if self.guarded:
            options["proxy_url"] = GUARDED
        if oauth_tokens.uses_tokens(self.settings):
            from ringfence.fencing.kafka.kafka_python_client import TokenProvider  # a web process does without it

            with _token_errors():
                options["sasl_oauth_token_provider"] = TokenProvider(oauth_tokens.source_of(self.settings))
        return {"bootstrap_servers": self.bootstrap.split(","), "client_id": self.client_id, **options}

    def as_json(self) -> dict[str, object]:
        """Return JSON for `from_json`, without `reading` and `guarded`: it is the worker's own cluster."""
        return {"bootstrap": self.bootstrap, "settings": dict(self.settings), "client_id": self.client_id}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "Connection":
        settings = value["settings"]
        if not isinstance(settings, Mapping):
            raise TypeError("settings: an object of strings is expected")
        return cls(str(value["bootstrap"]), dict(settings), str(value["client_id"]))


@contextmanager
def _token_errors() -> Iterator[None]:
    try:
        yield
    except oauth_tokens.NoToken as error:
        if error.refused:
            raise Fatal(str(error), "SASL_AUTHENTICATION_FAILED") from error
        raise Retriable(str(error)) from error
    except ValueError as error:
        raise Fatal(str(error)) from error


def _ascii(pem: str | None) -> str:
    """Leave out what can only stand in a comment."""
    return (pem or "").encode("ascii", "ignore").decode()


def tls_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Create a context for these settings, also for keys and certificates that are strings: Python only loads a
    client's own from files. Raises OSError or ValueError (ssl.SSLError is the former) for what cannot be used.
    """
    place = settings.get("ssl.ca.location")
    is_folder = place is not None and Path(place).is_dir()  # librdkafka takes either
    context = ssl.create_default_context(
        cafile=None if is_folder else place,
        capath=place if is_folder else None,
        cadata=_ascii(settings.get("ssl.ca.pem")) or None,
    )
    # Python 3.13 is stricter with certificates than librdkafka and Java are.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm") != "none"
    with tempfile.TemporaryDirectory() as scratch:  # only its owner can read it
        files = []
        for kind in ("certificate", "key"):
            text = settings.get(f"ssl.{kind}.pem")
            path = Path(scratch, kind)
            if text is not None:
                path.write_text(text, encoding="utf-8")
            files.append(str(path) if text is not None else settings.get(f"ssl.{kind}.location"))
        if files[0]:
            # Without a password, OpenSSL would ask for that of an encrypted key at the terminal.
            context.load_cert_chain(files[0], files[1], settings.get("ssl.key.password", ""))
    return context
