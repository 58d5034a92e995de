"""The common settings for transactions and offsets."""

from typing import Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    Importance,
    NonEmpty,
    OneOf,
    Validator,
    Width,
)
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY
from ringfence.connectors.topic_creation_settings import groups_setting

EXACTLY_ONCE_SUPPORT: Final = "exactly.once.support"
TRANSACTION_BOUNDARY_INTERVAL_MS: Final = "transaction.boundary.interval.ms"
OFFSETS_STORAGE_TOPIC: Final = "offsets.storage.topic"


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
    exactly_once = keys.group("Exactly Once Support")
    exactly_once.choice(
        EXACTLY_ONCE_SUPPORT,
        "required: refuse a connector that does not declare exactly-once support. requested: run it anyway.",
        ("requested", "required"),
        "requested",
        validator=OneOf("requested", "required", ignore_case=True),
        display_name="Exactly once support",
    )
    exactly_once.choice(
        TRANSACTION_BOUNDARY,
        "When to commit: after each batch that the task returns (poll), after a time (interval), or when the connector "
        "decides (connector), if it supports that. The default is poll, or connector if the connector needs that.",
        ("poll", "interval", "connector"),
        "poll",
        validator=OneOf("poll", "interval", "connector", ignore_case=True),
        display_name="Transaction boundary",
    )
    exactly_once.long(
        TRANSACTION_BOUNDARY_INTERVAL_MS,
        "With transaction.boundary=interval, the milliseconds between commits. Otherwise it has no effect. The default "
        "is the worker's offset.flush.interval.ms.",
        None,
        0,
        importance=Importance.LOW,
        display_name="Transaction boundary interval",
    )
    keys.group("offsets.topic").text(
        OFFSETS_STORAGE_TOPIC,
        "A separate topic for the source offsets of this connector. The default is the worker's offsets topic.",
        None,
        validator=NonEmpty(),
        importance=Importance.LOW,
        width=Width.LONG,
        display_name="Offsets topic",
    )
