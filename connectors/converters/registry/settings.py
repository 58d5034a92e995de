"""The common settings of converters with a registry, and the registry client that is built from them.

confluent-kafka has no public API for the HTTP clients inside its Schema Registry client, nor for the HTTP library that
it chose. All its private parts that we use are in this module; the minor version is pinned, and
`tests/connectors/test_confluent_client.py` is the canary test.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ringfence.connectors.api import (
    AllOf,
    ConfigDef,
    ConfigException,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    ParsedConfig,
    Range,
    Schema,
)
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.sdk import egress, worker_limits
from ringfence.connectors.sdk.files import pin
from ringfence.connectors.sdk.guarded_httpx import restrict_client

EXTRA: Final = "pip install 'ringfence[schema-registry]', on the workers and where the tasks run"


def load(module: str) -> Any:
    """Import a module of the extra, when the first converter needs it. Raises `ConfigException` with the remedy."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigException(f"Converters with a Schema Registry need more packages ({error}): {EXTRA}.") from error


def find_http_clients(client: Any) -> list[Any]:
    """Return the httpx clients of a registry client: the registry's, and the token issuer's if it has one."""
    rest = client._rest_client
    issuer = getattr(getattr(rest, "bearer_field_provider", None), "client", None)
    return [rest.session] if issuer is None else [rest.session, issuer]


def transport_error() -> type[Exception]:
    """Return the exception that a registry client raises if it cannot reach the registry."""
    error: type[Exception] = load("confluent_kafka.schema_registry.common._httpx_compat").httpx.TransportError
    return error


_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_JAVA_STRATEGIES: Final = "io.confluent.kafka.serializers.subject."
_LOW, _MEDIUM, _HIGH = Importance.LOW, Importance.MEDIUM, Importance.HIGH
_TEXTS: Final = {
    "bearer.auth.logical.cluster": "The logical cluster of a bearer token.",
    "bearer.auth.identity.pool.id": "The identity pool of a bearer token.",
    "bearer.auth.issuer.endpoint.url": "The URL that OAUTHBEARER fetches tokens from.",
    "bearer.auth.client.id": "The client id for OAUTHBEARER.",
    "bearer.auth.scope": "The scope for OAUTHBEARER.",
    "schema.registry.ssl.truststore.location": "A PEM file with trusted certificates.",
    "schema.registry.ssl.keystore.location": "A PEM file with the client's certificate and its key.",
    "schema.registry.ssl.key.location": "A PEM file with the client's key.",
}
_SECRETS: Final = {
    "basic.auth.user.info": "user:password, with basic.auth.credentials.source=USER_INFO.",
    "bearer.auth.token": "The token, with bearer.auth.credentials.source=STATIC_TOKEN.",
    "bearer.auth.client.secret": "The client secret for OAUTHBEARER.",
    "schema.registry.ssl.key.password": "The password of the client's key.",
}


def registry_settings() -> ConfigDef:
    """Return the common settings, without the prefix (`value.converter.`)."""
    keys = (
        ConfigDef()
        .define(
            "schema.registry.url",
            ConfigType.LIST,
            validator=AllOf(NonEmpty(), _plain_addresses),
            importance=_HIGH,
            documentation="The registry's addresses, without user and password.",
        )
        .define(
            "auto.register.schemas",
            ConfigType.BOOLEAN,
            default=True,
            documentation="Whether unknown schemas are registered; if not, their records are refused.",
        )
        .define(
            "normalize.schemas",
            ConfigType.BOOLEAN,
            default=False,
            documentation="Whether the registry compares schemas by their meaning.",
        )
        .define(
            "use.latest.version",
            ConfigType.BOOLEAN,
            default=False,
            validator=_false,
            importance=_LOW,
            documentation="Not supported: a record is always written with its own schema.",
        )
    )
    for half in ("key", "value"):
        keys.define(
            f"{half}.subject.name.strategy",
            ConfigType.CLASS,
            default=_STRATEGIES[0],
            validator=_is_strategy,
            documentation="The subject of a schema: the topic, the schema's name, or both.",
        )
    keys.define(
        "basic.auth.credentials.source",
        ConfigType.STRING,
        default="URL",
        validator=OneOf("URL", "USER_INFO"),
        documentation="USER_INFO if basic.auth.user.info contains user and password.",
    ).define(
        "bearer.auth.credentials.source",
        ConfigType.STRING,
        default=None,
        validator=OneOf("STATIC_TOKEN", "OAUTHBEARER"),
        documentation="The source of a bearer token; not set: no token.",
    )
    for name, text in _SECRETS.items():
        keys.define(name, ConfigType.PASSWORD, default=None, documentation=text)
    for name, text in _TEXTS.items():
        keys.define(name, ConfigType.STRING, default=None, documentation=text)
    for store in ("truststore", "keystore"):
        keys.define(
            f"schema.registry.ssl.{store}.type",
            ConfigType.STRING,
            default="PEM",
            validator=_is_pem,
            importance=_LOW,
            documentation="Only PEM is supported.",
        )
    return keys.define(
        "http.read.timeout.ms",
        ConfigType.INT,
        default=10_000,
        validator=Range(1),
        importance=_LOW,
        documentation="The timeout of a request to the registry, from connecting to the last byte of the response.",
    )


def _plain_addresses(name: str, value: object) -> None:
    """Refuse a user, which pages would show, and a query or fragment: the client appends its paths to the address, so
    these would make it send its requests to any other path of that server.
    """
    for each in value if isinstance(value, list) else ():
        if urlsplit(each).username:
            reason = "the address contains a user, which pages would show; use basic.auth.user.info"
            raise ConfigException.invalid(name, HIDDEN, reason)
        if "?" in each or "#" in each:
            reason = "the address of a registry has no query and no fragment; remove what begins with ? or #"
            raise ConfigException.invalid(name, HIDDEN, reason)


def _false(name: str, value: object) -> None:
    if value:
        raise ConfigException.invalid(
            name, "true", "a record is always written with its own schema; remove the setting"
        )


def _is_pem(name: str, value: object) -> None:
    if str(value).upper() != "PEM":
        raise ConfigException.invalid(name, value, "only PEM is supported; export the certificates as PEM")


def _is_strategy(name: str, value: object) -> None:
    if str(value).removeprefix(_JAVA_STRATEGIES) not in _STRATEGIES:
        raise ConfigException.invalid(name, value, f"Available: {', '.join(_STRATEGIES)}")


Subject = Callable[[str, Schema], str | None]
"""`subject(topic, schema)`: returns the subject of the schema; None if it needs a name and has none."""


def subject_of(settings: ParsedConfig, is_key: bool) -> Subject:
    """Return the strategy that the settings name."""
    half = "key" if is_key else "value"
    strategy = settings.string(f"{half}.subject.name.strategy").removeprefix(_JAVA_STRATEGIES)

    def subject(topic: str, schema: Schema) -> str | None:
        if strategy == _STRATEGIES[0]:
            return f"{topic}-{half}"
        if schema.name is None:
            return None
        return schema.name if strategy == _STRATEGIES[1] else f"{topic}-{schema.name}"

    return subject


def client_config(settings: ParsedConfig) -> dict[str, Any]:
    """Return confluent-kafka's settings for the registry client."""
    config: dict[str, Any] = {
        "url": ",".join(settings.strings("schema.registry.url")),
        "timeout": settings.integer("http.read.timeout.ms") / 1000,
        "retries.wait.ms": 200,
        "max.retries": 1,  # longer outages are handled by errors.retry.timeout, or by the task's restart
    }
    if settings.string("basic.auth.credentials.source") == "USER_INFO":
        config["basic.auth.user.info"] = _require(settings, "basic.auth.user.info", password=True)
    source = settings["bearer.auth.credentials.source"]
    if source is not None:
        config["bearer.auth.credentials.source"] = source
        config["bearer.auth.logical.cluster"] = settings["bearer.auth.logical.cluster"] or ""
        config["bearer.auth.identity.pool.id"] = settings["bearer.auth.identity.pool.id"] or ""
    if source == "STATIC_TOKEN":
        config["bearer.auth.token"] = _require(settings, "bearer.auth.token", password=True)
    if source == "OAUTHBEARER":
        for name in ("issuer.endpoint.url", "client.id", "scope"):
            config[f"bearer.auth.{name}"] = _require(settings, f"bearer.auth.{name}")
        config["bearer.auth.client.secret"] = _require(settings, "bearer.auth.client.secret", password=True)
    files: Mapping[str, object] = {
        "ssl.ca.location": settings["schema.registry.ssl.truststore.location"],
        "ssl.certificate.location": settings["schema.registry.ssl.keystore.location"],
        "ssl.key.location": settings["schema.registry.ssl.key.location"],
    }
    config |= {name: pin(str(path)) for name, path in files.items() if path is not None}
    if settings["schema.registry.ssl.key.password"] is not None:
        config["ssl.key.password"] = settings.password("schema.registry.ssl.key.password")
    return config


def _require(settings: ParsedConfig, name: str, *, password: bool = False) -> str:
    if settings[name] is None:
        raise ConfigException(f'Missing required configuration "{name}": the registry\'s credentials need it.')
    return settings.password(name) if password else settings.string(name)


def client(settings: ParsedConfig) -> Any:
    """Create a registry client. Makes no request yet. Raises `ConfigException`."""
    registry = load("confluent_kafka.schema_registry")
    policy = egress.Policy(worker_limits.current().egress)
    try:
        new_client = registry.SchemaRegistryClient(client_config(settings))
        for http_client in find_http_clients(new_client):
            restrict_client(http_client, policy, settings.integer("http.read.timeout.ms") / 1000)
        return new_client
    except (ValueError, TypeError, OSError) as error:
        raise ConfigException(f"The Schema Registry's settings are inconsistent: {error}") from error
