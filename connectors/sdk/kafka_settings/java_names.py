"""Translates the settings of Kafka's Java clients, as Connect's users write them, to librdkafka's. One table. Pure.

A setting that is unknown or has no counterpart is an error that names it. A setting that the exactly-once runtime fixes
(KIP-618: isolation level, transactional id) is ignored with a warning.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ringfence.connectors.sdk.kafka_settings import oauth_tokens, security


class Role(StrEnum):
    """Which of a connector's clients; also the prefix of its settings."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


BOOTSTRAP: Final = "bootstrap.servers"
TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
MAX_BLOCK: Final = "max.block.ms"
"""Only the transactional producer, which is not librdkafka's, knows it."""

_EVERY: Final = (Role.PRODUCER, Role.CONSUMER, Role.ADMIN)
_PRODUCER: Final = (Role.PRODUCER,)
_CONSUMER: Final = (Role.CONSUMER,)
_MAX: Final = 2**31 - 1

Convert = Callable[[str], str]
"""Converts Java's value to librdkafka's. Raises ValueError with the expected form."""


def _whole(low: int, high: int = _MAX, **replaced: int) -> Convert:
    def convert(text: str) -> str:
        try:
            number = int(text)
        except ValueError:
            raise ValueError("an integer is expected") from None
        number = replaced.get("minus_one", number) if number == -1 else number
        if not low <= number <= high:
            raise ValueError(f"a number from {low} to {high} is expected")
        return str(number)

    return convert


def _kilobytes(text: str) -> str:
    return str(max(1, int(_whole(1024, 2**41)(text)) // 1024))


def _batch_bytes(text: str) -> str:
    """With 0, as with 1, each record is a batch of its own."""
    return str(max(1, int(_whole(0)(text))))


def _one_of(*names: str, upper: bool = False) -> Convert:
    def convert(text: str) -> str:
        value = text.upper() if upper else text.lower()
        if value not in names:
            raise ValueError(f"one of {', '.join(names)} is expected")
        return value

    return convert


def _text(text: str) -> str:
    """Refuses line breaks: a client sends its id before it knows that it talks to Kafka, and a service that reads lines
    would take what comes after one for a command.
    """
    if not _lines(text).isprintable():
        raise ValueError("control characters are not allowed")
    return text


def _lines(text: str) -> str:
    if not text:
        raise ValueError("a string is expected")
    return text


def _secret(text: str) -> str:
    return _lines(text)


def _acks(text: str) -> str:
    """Values other than all are for modes without transactions: `connection.find_acks_errors` reports them."""
    return "all" if text == "-1" else _one_of("all", "1", "0")(text)


def _identification(text: str) -> str:
    return "none" if text in ("", "none") else _one_of("https")(text)


def _mechanism(text: str) -> str:
    """Kerberos needs a library of the system and a ticket on each machine that a task runs on."""
    if text.upper() == "GSSAPI":
        names = ", ".join(security.MECHANISMS)
        raise ValueError(f"not all clients here can log in with it: one of {names} is expected, or a certificate")
    return _one_of(*security.MECHANISMS, upper=True)(text)


_OIDC: Final = "oidc"
_OAUTH_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_OAUTH_CLASSES: Final = (
    "OAuthBearerLoginCallbackHandler",
    "secured.OAuthBearerLoginCallbackHandler",
    "ClientCredentialsJwtRetriever",
    "DefaultJwtRetriever",
)


def _token_class(text: str) -> str:
    """Classes of Kafka that ask a token endpoint with client credentials, as all clients here do."""
    if text not in [f"{_OAUTH_PACKAGE}{name}" for name in _OAUTH_CLASSES]:
        raise ValueError(f"it has no counterpart here: tokens come by client credentials from {oauth_tokens.ENDPOINT}")
    return _OIDC


def _endpoint(text: str) -> str:
    return oauth_tokens.parse_endpoint(text)


def _extensions(text: str) -> str:
    oauth_tokens.parse_extensions(text)
    return text


def _dns_lookup(text: str) -> str:
    if text.lower() == "resolve_canonical_bootstrap_servers_only":
        raise ValueError("only logins by Kerberos need canonical names, and there are none here: use use_all_dns_ips")
    return _one_of("use_all_dns_ips")(text)


@dataclass(frozen=True, slots=True)
class Rule:
    """The translation of one Java setting. to: librdkafka's name."""

    to: str
    convert: Convert
    roles: tuple[Role, ...] = _EVERY


RULES: Final[Mapping[str, Rule]] = {
    BOOTSTRAP: Rule(BOOTSTRAP, _text),
    "client.id": Rule("client.id", _text),
    "client.dns.lookup": Rule("client.dns.lookup", _dns_lookup),
    "request.timeout.ms": Rule("socket.timeout.ms", _whole(10, 300_000)),
    "retry.backoff.ms": Rule("retry.backoff.ms", _whole(1, 300_000)),
    "retry.backoff.max.ms": Rule("retry.backoff.max.ms", _whole(1, 300_000)),
    "reconnect.backoff.ms": Rule("reconnect.backoff.ms", _whole(0, 3_600_000)),
    "reconnect.backoff.max.ms": Rule("reconnect.backoff.max.ms", _whole(0, 3_600_000)),
    "connections.max.idle.ms": Rule("connections.max.idle.ms", _whole(0, _MAX, minus_one=0)),
    "metadata.max.age.ms": Rule("metadata.max.age.ms", _whole(1, 86_400_000)),
    "send.buffer.bytes": Rule("socket.send.buffer.bytes", _whole(0, 100_000_000, minus_one=0)),
    "receive.buffer.bytes": Rule("socket.receive.buffer.bytes", _whole(0, 100_000_000, minus_one=0)),
    "socket.connection.setup.timeout.ms": Rule("socket.connection.setup.timeout.ms", _whole(1000)),
    "security.protocol": Rule(
        "security.protocol", _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", upper=True)
    ),
    "sasl.mechanism": Rule("sasl.mechanism", _mechanism),
    "ssl.endpoint.identification.algorithm": Rule("ssl.endpoint.identification.algorithm", _identification),
    "ssl.key.password": Rule("ssl.key.password", _secret),
    "sasl.mechanisms": Rule("sasl.mechanism", _mechanism),
    # librdkafka's names of what Java puts into stores and login modules.
    "sasl.username": Rule("sasl.username", _text),
    "sasl.password": Rule("sasl.password", _secret),
    oauth_tokens.ENDPOINT: Rule(oauth_tokens.ENDPOINT, _endpoint),
    "sasl.oauthbearer.client.credentials.client.id": Rule(oauth_tokens.CLIENT_ID, _text),
    "sasl.oauthbearer.client.credentials.client.secret": Rule(oauth_tokens.CLIENT_SECRET, _secret),
    oauth_tokens.CLIENT_ID: Rule(oauth_tokens.CLIENT_ID, _text),
    oauth_tokens.CLIENT_SECRET: Rule(oauth_tokens.CLIENT_SECRET, _secret),
    oauth_tokens.SCOPE: Rule(oauth_tokens.SCOPE, _text),
    oauth_tokens.EXTENSIONS: Rule(oauth_tokens.EXTENSIONS, _extensions),
    oauth_tokens.URL_ENCODE: Rule(oauth_tokens.URL_ENCODE, _one_of("true", "false")),
    oauth_tokens.METHOD: Rule(oauth_tokens.METHOD, _one_of(_OIDC)),
    "sasl.login.callback.handler.class": Rule(oauth_tokens.METHOD, _token_class),
    "sasl.oauthbearer.jwt.retriever.class": Rule(oauth_tokens.METHOD, _token_class),
    oauth_tokens.CA_FILE: Rule(oauth_tokens.CA_FILE, _text),
    oauth_tokens.CA_TEXT: Rule(oauth_tokens.CA_TEXT, _lines),
    "ssl.ca.location": Rule("ssl.ca.location", _text),
    "ssl.certificate.location": Rule("ssl.certificate.location", _text),
    "ssl.key.location": Rule("ssl.key.location", _text),
    "ssl.ca.pem": Rule("ssl.ca.pem", _lines),
    "ssl.certificate.pem": Rule("ssl.certificate.pem", _lines),
    "ssl.key.pem": Rule("ssl.key.pem", _secret),
    "acks": Rule("acks", _acks, _PRODUCER),
    "compression.type": Rule("compression.type", _one_of("none", "gzip", "snappy", "lz4", "zstd"), _PRODUCER),
    "batch.size": Rule("batch.size", _batch_bytes, _PRODUCER),
    "linger.ms": Rule("linger.ms", _whole(0, 900_000), _PRODUCER),
    MAX_BLOCK: Rule(MAX_BLOCK, _whole(1), _PRODUCER),
    "max.request.size": Rule("message.max.bytes", _whole(1000, 1_000_000_000), _PRODUCER),
    "buffer.memory": Rule("queue.buffering.max.kbytes", _kilobytes, _PRODUCER),
    "delivery.timeout.ms": Rule("message.timeout.ms", _whole(1), _PRODUCER),
    TRANSACTION_TIMEOUT: Rule(TRANSACTION_TIMEOUT, _whole(1000), _PRODUCER),
    "max.in.flight.requests.per.connection": Rule("max.in.flight.requests.per.connection", _whole(1, 5), _PRODUCER),
    "retries": Rule("retries", _whole(1), _PRODUCER),
    "fetch.min.bytes": Rule("fetch.min.bytes", _whole(1, 100_000_000), _CONSUMER),
    "fetch.max.bytes": Rule("fetch.max.bytes", _whole(1024, 2_147_483_135), _CONSUMER),
    "max.partition.fetch.bytes": Rule("max.partition.fetch.bytes", _whole(1, 1_000_000_000), _CONSUMER),
    "check.crcs": Rule("check.crcs", _one_of("true", "false"), _CONSUMER),
    "client.rack": Rule("client.rack", _text, _CONSUMER),
}

FIXED: Final[Mapping[Role, Mapping[str, str]]] = {
    Role.PRODUCER: {
        "transactional.id": "it is ${group.id}-${connector}-${task}",
        "enable.idempotence": "it is always true",
    },
    Role.CONSUMER: {
        "isolation.level": "it is always read_committed",
        "group.id": "source offsets are read without a group",
        "enable.auto.commit": "it is always false",
        "auto.offset.reset": "it is always earliest",
        "fetch.max.wait.ms": "it depends on what is read",
    },
    Role.ADMIN: {},
}
"""Ignored with a warning: source tasks are exactly once only with these values."""

_STORES: Final = frozenset(
    f"ssl.{store}.{end}"
    for store, ends in (("truststore", ("certificates",)), ("keystore", ("key", "certificate.chain")))
    for end in ("type", "location", "password", *ends)
)
_LEVELS: Final = {"gzip": (1, 9), "lz4": (1, 12), "zstd": (1, 22)}
"""Java has a compression level per codec (KIP-390), librdkafka one for the codec in use."""


@dataclass(slots=True)
class Translation:
    """librdkafka's settings, and warnings and errors by the setting's name as it was given."""

    settings: dict[str, str] = field(default_factory=dict, repr=False)
    warnings: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def known_settings(role: Role) -> list[str]:
    """Return the settings that are accepted for this role."""
    levels = [f"compression.{codec}.level" for codec in _LEVELS] if role is Role.PRODUCER else []
    plain = [name for name, rule in RULES.items() if role in rule.roles]
    return sorted([*plain, *_STORES, "sasl.jaas.config", *levels, *FIXED[role]])


def translate(role: Role, settings_of_role: Mapping[str, str], names: Mapping[str, str] | None = None) -> Translation:
    """Translate one client's settings, without prefixes. names: each setting's name in the user's configuration."""
    called = names or {}
    translated = Translation()
    for name, value in settings_of_role.items():
        full = called.get(name, name)
        if name in FIXED[role]:
            if (name, value.lower()) not in (("enable.idempotence", "true"), ("isolation.level", "read_committed")):
                translated.warnings[full] = f"{full} is ignored and cannot be overridden: {FIXED[role][name]}."
            continue
        if not _exists(role, name):
            translated.errors[full] = (
                f"Unknown configuration {full}: the {role} here has no such setting, nor an equivalent one. Remove it."
            )
            continue
        try:
            _one(role, name, value, settings_of_role, translated)
        except ValueError as error:
            value_text = "" if name in security.SECRETS else f" {value}"
            translated.errors[full] = f"Invalid value{value_text} for configuration {full}: {error}."
    settings, errors = security.stores(settings_of_role)
    translated.settings.update(settings)
    for name, text in errors.items():
        translated.errors[called.get(name, name)] = f"Configuration {called.get(name, name)} cannot be used: {text}."
    return translated


def _exists(role: Role, name: str) -> bool:
    rule = RULES.get(name)
    return role in rule.roles if rule else name in known_settings(role)


def _one(role: Role, name: str, value: str, settings: Mapping[str, str], translation: Translation) -> None:
    if name in RULES:
        translation.settings[RULES[name].to] = RULES[name].convert(value.strip())
    elif name == "sasl.jaas.config":
        translation.settings.update(security.login(value))
        if "sasl.mechanism" in settings and not security.fits(value, settings["sasl.mechanism"]):
            raise ValueError("its login module does not fit sasl.mechanism")
    elif name not in _STORES:
        codec = name.split(".")[1]
        level = _whole(*_LEVELS[codec])(value.strip())
        if settings.get("compression.type", "").lower() == codec:
            translation.settings["compression.level"] = level


_NO_CLIENTS: Final = "admin.listeners"
"""A worker's setting, where Kafka Connect serves its administration: its name only begins as the admin client's."""


def of_prefix(prefix: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings below a prefix, without it; not those of a longer prefix of the same kind
    (`producer.override.`).
    """
    return {
        name.removeprefix(prefix): value
        for name, value in config.items()
        if name.startswith(prefix) and not name.startswith((f"{prefix}override.", _NO_CLIENTS))
    }


def servers(bootstrap: str) -> frozenset[str]:
    """Return the addresses in a bootstrap list, for comparison."""
    return frozenset(address.strip().lower() for address in bootstrap.split(",") if address.strip())


def merge(role: Role, layers: Iterable[tuple[str, Mapping[str, str]]]) -> Translation:
    """Merge the settings of several configurations, later ones on top: (prefix, configuration) each."""
    merged: dict[str, str] = {}
    names: dict[str, str] = {}
    for prefix, config in layers:
        own = of_prefix(prefix, config)
        merged = _over(merged, own)
        names.update({name: prefix + name for name in own})
    return translate(role, merged, names)


def _over(base: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """A layer with its own login or store replaces that of the layer below as a whole. So does one with its own token
    endpoint: it must not be told the secret of the layer below.
    """
    overridden = security.find_replaced(over)
    for store in ("ssl.truststore.", "ssl.keystore."):
        if any(name.startswith(store) for name in over):
            overridden |= {name for name in _STORES if name.startswith(store)}
    return {**{name: value for name, value in base.items() if name not in overridden}, **over}
