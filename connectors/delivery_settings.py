"""The common settings for errors, transactions and offsets."""

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
    Validator,
    Width,
)
from ringfence.connectors.topic_creation_settings import groups_setting

EXACTLY_ONCE_SUPPORT: Final = "exactly.once.support"
TRANSACTION_BOUNDARY: Final = "transaction.boundary"
TRANSACTION_BOUNDARY_INTERVAL_MS: Final = "transaction.boundary.interval.ms"
OFFSETS_STORAGE_TOPIC: Final = "offsets.storage.topic"
DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
AUTO_RESTART_ENABLED: Final = "auto.restart.enabled"
AUTO_RESTART_MAX_ATTEMPTS: Final = "auto.restart.max.attempts"

_ERRORS, _EXACTLY_ONCE, _OFFSETS = "Error Handling", "Exactly Once Support", "offsets.topic"
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW


def transaction_boundary(config: Mapping[str, str]) -> str:
    """Return the setting in lower case; `poll` if it is missing. It may be invalid."""
    return config.get(TRANSACTION_BOUNDARY, "").strip().lower() or "poll"


def not_yet(what: str, *accepted: object) -> Validator:
    """Return a validator that accepts only these values, and refuses others because `what` is not supported yet."""

    def check(name: str, value: object) -> None:
        if (value.lower() if isinstance(value, str) else value) not in accepted:
            shown = ",".join(value) if isinstance(value, list) else value
            if isinstance(shown, bool):
                shown = str(shown).lower()
            raise ConfigException.invalid(name, shown, f"{what} not supported yet; remove this setting")

    return check


def error_settings(keys: ConfigDef) -> None:
    """Define what happens to records that cannot be transformed or converted, and to failed tasks."""
    _retry_settings(keys)
    _tolerance_settings(keys)
    _restart_settings(keys)


def _retry_settings(keys: ConfigDef) -> None:
    (
        keys.define(
            "errors.retry.timeout",
            ConfigType.LONG,
            default=0,
            validator=Range(-1),
            importance=_MEDIUM,
            documentation="How long, in milliseconds, a transform or converter is called again after a RetriableError. "
            "0: never; -1: without a limit.",
            group=_ERRORS,
            width=Width.MEDIUM,
            display_name="Retry timeout for errors",
        ).define(
            "errors.retry.delay.max.ms",
            ConfigType.LONG,
            default=60000,
            validator=Range(1),
            importance=_MEDIUM,
            documentation="The maximum pause between two attempts, in milliseconds. Without retries it has no effect.",
            group=_ERRORS,
            width=Width.MEDIUM,
            display_name="Longest pause between retries",
        )
    )


def _tolerance_settings(keys: ConfigDef) -> None:
    (
        keys.define(
            "errors.tolerance",
            ConfigType.STRING,
            default="none",
            validator=OneOf("none", "all"),
            recommender=Choices("none", "all"),
            importance=_MEDIUM,
            documentation="none: a record that cannot be transformed or converted fails the task. all: the "
            "record is skipped and its source offset is committed. A dead letter topic keeps it, if one is set.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Error tolerance",
        )
        .define(
            "errors.log.enable",
            ConfigType.BOOLEAN,
            default=False,
            importance=_MEDIUM,
            documentation="Log the error of each record that fails, even if it is tolerated. An error that fails the "
            "task is always logged.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Log errors",
        )
        .define(
            "errors.log.include.messages",
            ConfigType.BOOLEAN,
            default=False,
            importance=_MEDIUM,
            documentation="Also log the record's key and value. They may contain personal data or secrets.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Log error details",
        )
        .define(
            DEAD_LETTERS,
            ConfigType.STRING,
            default=None,
            validator=NonEmpty(),
            importance=_MEDIUM,
            documentation="With errors.tolerance=all, the topic for skipped records. They are written in the same "
            "transaction as their source offsets, with stage, class, error, source partition and source offset as "
            "headers. The topic is created if it is missing.",
            group=_ERRORS,
            width=Width.MEDIUM,
            display_name="Dead letter topic",
        )
    )


def _restart_settings(keys: ConfigDef) -> None:
    (
        keys.define(
            AUTO_RESTART_ENABLED,
            ConfigType.BOOLEAN,
            default=True,
            importance=_LOW,
            documentation="Whether a failed task restarts automatically: after 10 s, then after pauses that double up "
            "to 10 min. A task that reports a wrong configuration is not restarted.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Restart failed tasks",
        ).define(
            AUTO_RESTART_MAX_ATTEMPTS,
            ConfigType.INT,
            default=7,
            validator=Range(0),
            importance=_LOW,
            documentation="The maximum number of automatic restarts of a task in a row. The count starts again after "
            "10 min without a failure, and after a manual restart.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Most restarts in a row",
        )
    )


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
            "when the connector decides (connector), if it supports that.",
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
