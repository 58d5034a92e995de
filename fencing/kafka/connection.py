"""The connection to a cluster, as plain data that is sent to executors as JSON; and the effective settings of one
connector's clients there.

Layers of a connector's settings, later ones on top: the worker's connection, its `producer.` keys (`consumer.`,
`admin.`), and the connector's `producer.override.` keys. A connector has one cluster: the one that its producer writes
to, where its source offsets and its transactional ids are, too. Its consumer and admin client use that cluster even
without a setting for it.

The default settings of a connector's producers have librdkafka's names. Producers of the platform's own records have
theirs where they are created (`plain_producers`).
"""

import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from ringfence.connectors.sdk import egress, worker_limits
from ringfence.connectors.sdk.files import pin_client_files
from ringfence.connectors.sdk.guarded_connects import allows_unlisted_names, run_guarded
from ringfence.connectors.sdk.kafka_settings import oauth_tokens
from ringfence.connectors.sdk.kafka_settings.input_group import session_timeout_ms
from ringfence.connectors.sdk.kafka_settings.java_names import (
    BOOTSTRAP,
    RULES,
    TRANSACTION_TIMEOUT,
    Role,
    Translation,
    merge,
    servers,
)
from ringfence.connectors.sdk.kafka_settings.security import overlay
from ringfence.fencing.errors import Fatal, Invalid, Retriable

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


QUEUE_BYTES: Final = 32 * 1024 * 1024
_QUEUE_MESSAGES: Final = 100_000
"""librdkafka counts only the bytes of values in QUEUE_BYTES. With small records, its own 200 bytes each take most of
the memory, so their number is limited, too. A shorter queue also stays in the processor's caches: a third more
records/s than with ten times as many.
"""
BATCH_BYTES: Final = 512 * 1024
"""4,000 records of 100 bytes in one batch: two batches of half the size cost librdkafka half as much CPU again. A
larger value would be a risk: librdkafka does not split a batch that exceeds a topic's `max.message.bytes` (default
1 MiB).
"""
LINGER_MS: Final = 5
"""How long a record waits for others. Longer would spare brokers work, and cost up to 30 % of the rate."""


def idempotent_settings(connection: Connection) -> dict[str, object]:
    """Return the settings of `IdempotentProducer`, which retries without a limit."""
    return connection.for_writing(
        message_timeout_ms=0,
        acks="all",
        linger_ms=LINGER_MS,
        queue_buffering_max_kbytes=QUEUE_BYTES // 1024,
        queue_buffering_max_messages=_QUEUE_MESSAGES,
        batch_size=BATCH_BYTES,
        compression_type="none",
        partitioner="murmur2_random",  # as in Java, so that keys go to the same partitions as from other producers
    )


_ANY_CLIENT: Final = frozenset(rule.to for rule in RULES.values() if len(rule.roles) == len(Role))
_DEFAULT_TIMEOUT_MS: Final = 60_000

Settings = Mapping[str, str]


def resolve_settings(role: Role, worker_settings: Settings, connector_config: Settings) -> Translation:
    """Return both layers of one role, translated, and the errors in them.

    Files that the connector names are read here, so that the client gets the content that was validated.
    """
    prefix = f"{role}.override."
    mine = {name: value for name, value in connector_config.items() if name.startswith(prefix)}
    settings, unreadable = pin_client_files(mine)
    translation = merge(role, [(f"{role}.", worker_settings), (prefix, settings)])
    translation.errors.update(unreadable)
    return translation


def find_acks_errors(worker_settings: Settings, connector_config: Settings) -> dict[str, str]:
    """Return the errors of `acks` settings that a transactional producer cannot have, by the setting's full name."""
    if resolve_settings(Role.PRODUCER, worker_settings, connector_config).settings.get("acks", "all") == "all":
        return {}
    name = f"{Role.PRODUCER}.override.acks"
    name, value = (name, connector_config[name]) if name in connector_config else ("producer.acks", "")
    value = value or worker_settings["producer.acks"]
    return {name: f"{name}={value}: a transactional producer needs all. Remove it, or set it to all."}


def bootstrap_of(base: str, worker_settings: Settings, connector_config: Settings) -> str:
    """Return the addresses of the cluster that the connector's producer writes to. base: the worker's."""
    for name, settings in (
        (f"{Role.PRODUCER}.override.{BOOTSTRAP}", connector_config),
        (f"{Role.PRODUCER}.{BOOTSTRAP}", worker_settings),
    ):
        if settings.get(name, "").strip():
            return settings[name].strip()
    return base


def is_other_cluster(base: str, worker_settings: Settings, connector_config: Settings) -> bool:
    """Return whether that is another cluster than the worker's, judged by the addresses."""
    return servers(bootstrap_of(base, worker_settings, connector_config)) != servers(base)


def find_foreign_addresses(base: str, worker_settings: Settings, connector_config: Settings) -> dict[str, str]:
    """Return the errors of consumer and admin addresses of another cluster than the producer's, by full name."""
    where = bootstrap_of(base, worker_settings, connector_config)
    wrong = {}
    for role in (Role.CONSUMER, Role.ADMIN):
        name = f"{role}.override.{BOOTSTRAP}"
        settings = connector_config
        if name not in settings and f"{Role.PRODUCER}.override.{BOOTSTRAP}" not in connector_config:
            name, settings = f"{role}.{BOOTSTRAP}", worker_settings
        if name in settings and servers(settings[name]) != servers(where):
            wrong[name] = (
                f"{name} names another cluster than the producer's {where}: the transactional ids and source offsets "
                "of a connector are where its producer writes. Give all of them the same addresses, or remove it."
            )
    return wrong


def _sound(role: Role, base: Connection, worker_settings: Settings, connector_config: Settings) -> dict[str, str]:
    translation = resolve_settings(role, worker_settings, connector_config)
    lost = (
        find_foreign_addresses(base.bootstrap, worker_settings, connector_config) if role is not Role.PRODUCER else {}
    )
    wrong = {**translation.errors, **{name: text for name, text in lost.items() if name.startswith(f"{role}.")}}
    if wrong:
        raise Invalid(" ".join(wrong.values()))
    return {name: value for name, value in translation.settings.items() if name != BOOTSTRAP}


def _is_security(name: str) -> bool:
    return name.startswith(("ssl.", "sasl.", "security.", "https."))


def _may_go(addresses: str) -> None:
    try:
        egress.check_servers(egress.Policy(worker_limits.current().egress), addresses)
    except egress.EgressDenied as error:
        raise Invalid(str(error)) from error


def connection_of(role: Role, base: Connection, worker_settings: Settings, connector_config: Settings) -> Connection:
    """Return the connection of this connector's clients of a role. Raises `Invalid` if its settings cannot be used.

    The worker's credentials are only sent to the worker's cluster. For another cluster they come from
    `producer.override.` (or the worker's `producer.`), also for a consumer or admin client without credentials.
    """
    settings = _sound(role, base, worker_settings, connector_config)
    client_id = settings.pop("client.id", base.client_id)
    common_settings = {
        name: value for name, value in settings.items() if name in _ANY_CLIENT or name.startswith("ssl.")
    }
    reading = (
        {name: value for name, value in settings.items() if name not in common_settings}
        if role is Role.CONSUMER
        else {}
    )
    where = bootstrap_of(base.bootstrap, worker_settings, connector_config)
    try:
        oauth_tokens.check_endpoint(common_settings)
    except ValueError as error:
        raise Invalid(str(error)) from error
    if servers(where) == servers(base.bootstrap):
        return Connection(base.bootstrap, overlay(base.settings, common_settings), client_id, reading)
    _may_go(where)
    if role is not Role.PRODUCER and not any(map(_is_security, common_settings)):
        producer_settings = _sound(Role.PRODUCER, base, worker_settings, connector_config)
        common_settings |= {name: value for name, value in producer_settings.items() if _is_security(name)}
    return Connection(where, common_settings, client_id, reading, guarded=True)


def producer_overrides(
    base: Connection, worker_settings: Settings, connector_config: Settings, timeout_ms: int
) -> dict[str, object]:
    """Return librdkafka's settings for the task's producer, on top of the runtime's own, without those of its login,
    which `connection_of` has. Raises `Invalid`.

    timeout_ms: the task's transaction timeout. No delivery and no request may take longer, so larger timeouts are
    reduced to it.
    """
    sound_settings = _sound(Role.PRODUCER, base, worker_settings, connector_config)
    settings: dict[str, object] = {name: value for name, value in sound_settings.items() if not _is_security(name)}
    settings.pop(TRANSACTION_TIMEOUT, None)
    for name in ("message.timeout.ms", "socket.timeout.ms"):
        if name in settings:
            settings[name] = str(min(int(str(settings[name])), timeout_ms))
    return settings


def transaction_timeout_ms(worker_settings: Settings, connector_config: Settings) -> int:
    """Return the configured timeout, or the default if it cannot be parsed: `producer_overrides` reports that.

    The default is a minute, but for tasks that read a consumer group it is their session timeout (KIP-447): when a
    task is lost, the group assigns its partitions to other members after that time. They can only begin when its open
    transaction has ended, since that may still commit offsets. So it need not outlive the session.
    `Boundaries.transaction_timeout_ms` ensures at least three commit intervals.
    """
    producer_settings = resolve_settings(Role.PRODUCER, worker_settings, connector_config).settings
    return timeout_in(producer_settings, worker_settings, connector_config)


def timeout_in(producer_settings: Settings, worker_settings: Settings, connector_config: Settings) -> int:
    """Do the same. producer_settings: the effective ones, where they are known already."""
    text = producer_settings.get(TRANSACTION_TIMEOUT) or worker_settings.get(TRANSACTION_TIMEOUT, "")
    return int(text) if text.isdecimal() else session_timeout_ms(connector_config) or _DEFAULT_TIMEOUT_MS
