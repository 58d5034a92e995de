"""The common settings for transactions and offsets."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigException,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    SourceConnector,
    Validator,
    Width,
)
from ringfence.connectors.topic_creation_settings import groups_setting

EXACTLY_ONCE_SUPPORT: Final = "exactly.once.support"
TRANSACTION_BOUNDARY: Final = "transaction.boundary"
TRANSACTION_BOUNDARY_INTERVAL_MS: Final = "transaction.boundary.interval.ms"
OFFSETS_STORAGE_TOPIC: Final = "offsets.storage.topic"

_EXACTLY_ONCE, _OFFSETS = "Exactly Once Support", "offsets.topic"
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW


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


def not_yet(what: str, *accepted: object) -> Validator:
    """Return a validator that accepts only these values, and refuses others because `what` is not supported yet."""

    def check(name: str, value: object) -> None:
        if (value.lower() if isinstance(value, str) else value) not in accepted:
            text = ",".join(value) if isinstance(value, list) else value
            if isinstance(text, bool):
                text = str(text).lower()
            raise ConfigException.invalid(name, text, f"{what} not supported yet; remove this setting")

    return check


def delivery_settings(keys: ConfigDef) -> None:
    """Define the settings of topics, transactions and offsets."""
    groups_setting(keys)
    (
        keys.define(
            EXACTLY_ONCE_SUPPORT,
            ConfigType.STRING,
            default="requested",
            validator=OneOf("requested", "required", ignore_case=True),
            recommender=Choices("requested", "required"),
            importance=_MEDIUM,
            documentation="required: refuse a connector that does not declare exactly-once support. requested: run it "
            "anyway.",
            group=_EXACTLY_ONCE,
            width=Width.SHORT,
            display_name="Exactly once support",
        )
        .define(
            TRANSACTION_BOUNDARY,
            ConfigType.STRING,
            default="poll",
            validator=OneOf("poll", "interval", "connector", ignore_case=True),
            recommender=Choices("poll", "interval", "connector"),
            importance=_MEDIUM,
            documentation="When to commit: after each batch that the task returns (poll), after a time (interval), or "
            "when the connector decides (connector), if it supports that. The default is poll, or connector if the "
            "connector needs that.",
            group=_EXACTLY_ONCE,
            width=Width.SHORT,
            display_name="Transaction boundary",
        )
        .define(
            TRANSACTION_BOUNDARY_INTERVAL_MS,
            ConfigType.LONG,
            default=None,
            validator=Range(0),
            importance=_LOW,
            documentation="With transaction.boundary=interval, the milliseconds between commits. Otherwise it has no "
            "effect. The default is the worker's offset.flush.interval.ms.",
            group=_EXACTLY_ONCE,
            width=Width.SHORT,
            display_name="Transaction boundary interval",
        )
        .define(
            OFFSETS_STORAGE_TOPIC,
            ConfigType.STRING,
            default=None,
            validator=NonEmpty(),
            importance=_LOW,
            documentation="A separate topic for the source offsets of this connector. The default is the worker's "
            "offsets topic.",
            group=_OFFSETS,
            width=Width.LONG,
            display_name="Offsets topic",
        )
    )
