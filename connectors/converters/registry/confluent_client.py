"""confluent-kafka's Schema Registry client, which an extra installs, and the HTTP clients inside it.

confluent-kafka has no public API for the HTTP clients, nor for the HTTP library that it chose. All its private parts
that we use are in this module; the minor version is pinned, and `tests/connectors/test_confluent_client.py` is the
canary test.
"""

import importlib
from typing import Any, Final

from ringfence.connectors.api import ConfigException

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
