"""How a configuration wants its records delivered: the boundary of transactions, and dead letters."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import SourceConnector

TRANSACTION_BOUNDARY: Final = "transaction.boundary"
DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"


def transaction_boundary(config: Mapping[str, str], default: str = "poll") -> str:
    """Return the setting in lower case. It may be invalid. default: if it is missing or blank."""
    return config.get(TRANSACTION_BOUNDARY, "").strip().lower() or default


def default_boundary(connector: SourceConnector, config: Mapping[str, str]) -> str:
    """Return the boundary that applies if the configuration does not set one: `connector` or `poll`."""
    return "connector" if connector.must_define_transaction_boundaries(config) else "poll"


def chosen_boundary(connector: SourceConnector, config: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that the connector needs, if the configuration sets no boundary; else nothing."""
    if transaction_boundary(config, "") or not connector.must_define_transaction_boundaries(config):
        return {}
    return {TRANSACTION_BOUNDARY: "connector"}


def with_boundary(connector: SourceConnector, config: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration with the boundary that the connector needs, if it sets none itself."""
    return {**config, **chosen_boundary(connector, config)}
