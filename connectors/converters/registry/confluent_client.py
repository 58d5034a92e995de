"""confluent-kafka's Schema Registry client, which comes with an extra, and the HTTP clients inside of it.

confluent-kafka has no public way to the HTTP clients, nor to the HTTP library that it chose. All private parts of it
that we use are in this module, so the minor version is pinned; `tests/connectors/test_confluent_client.py` is their
canary.
"""

import importlib
from typing import Any, Final

from ringfence.connectors.api import ConfigException

EXTRA: Final = "pip install 'ringfence[schema-registry]', on the workers and where the tasks run"


def load(module: str) -> Any:
    """A module of the extra, imported when the first converter needs it. Raises `ConfigException` with the remedy."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigException(f"Converters with a Schema Registry need more packages ({error}): {EXTRA}.") from error


def find_http_clients(client: Any) -> list[Any]:
    """The httpx clients that a registry client sends with: the registry's, and the token issuer's where it has one."""
    rest = client._rest_client
    issuer = getattr(getattr(rest, "bearer_field_provider", None), "client", None)
    return [rest.session] if issuer is None else [rest.session, issuer]


def transport_error() -> type[Exception]:
    """What a registry client raises when it cannot reach the registry."""
    error: type[Exception] = load("confluent_kafka.schema_registry.common._httpx_compat").httpx.TransportError
    return error
