"""The common settings that say what happens to bad records, and how the good ones are written."""

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
    """`poll`, `interval` or `connector`, if it is valid; `poll` where it is left out."""
    return config.get(TRANSACTION_BOUNDARY, "").strip().lower() or "poll"


def not_yet(what: str, *accepted: object) -> Validator:
    """Accepts the given values only; refuses any other with the reason that `what` is not there yet."""

    def check(name: str, value: object) -> None:
        if (value.lower() if isinstance(value, str) else value) not in accepted:
            shown = ",".join(value) if isinstance(value, list) else value
            if isinstance(shown, bool):
                shown = str(shown).lower()
            raise ConfigException.invalid(name, shown, f"{what} not supported yet; remove this setting")

    return check


def error_settings(keys: ConfigDef) -> None:
    """What happens to records that cannot be converted."""
    (
        keys.define(
            "errors.retry.timeout",
            ConfigType.LONG,
            default=0,
            validator=Range(-1),
            importance=_MEDIUM,
            documentation="For how many milliseconds a transform or converter that asks for it (RetriableError) is "
            "called again; 0: not at all, -1: for ever.",
            group=_ERRORS,
            width=Width.MEDIUM,
            display_name="Retry timeout for errors",
        )
        .define(
            "errors.retry.delay.max.ms",
            ConfigType.LONG,
            default=60000,
            validator=Range(1),
            importance=_MEDIUM,
            documentation="The longest pause between two tries, in milliseconds. Means nothing without retries.",
            group=_ERRORS,
            width=Width.MEDIUM,
            display_name="Longest pause between retries",
        )
        .define(
            "errors.tolerance",
            ConfigType.STRING,
            default="none",
            validator=OneOf("none", "all"),
            recommender=Choices("none", "all"),
            importance=_MEDIUM,
            documentation="none: a record that cannot be transformed or converted fails the task. all: it is skipped, "
            "its source offset is committed, and the dead letter topic keeps it where one is named.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Error tolerance",
        )
        .define(
            "errors.log.enable",
            ConfigType.BOOLEAN,
            default=False,
            importance=_MEDIUM,
            documentation="Write each failing record's error to the log, also where it is tolerated. An error that "
            "fails the task is logged in any case.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Log errors",
        )
        .define(
            "errors.log.include.messages",
            ConfigType.BOOLEAN,
            default=False,
            importance=_MEDIUM,
            documentation="Write the key and the value of the record into the log, too: mind what is in them.",
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
            documentation="With errors.tolerance=all, the topic that keeps the records that were skipped, written in "
            "the same transaction as their source offsets. Headers tell stage, class, error, source partition and "
            "offset. It is created where it is missing.",
            group=_ERRORS,
            width=Width.MEDIUM,
            display_name="Dead letter topic",
        )
        .define(
            AUTO_RESTART_ENABLED,
            ConfigType.BOOLEAN,
            default=True,
            importance=_LOW,
            documentation="Whether a failed task is started again by itself: after 10 s, then with doubled pauses of "
            "at most 10 min. Not where the task says that its configuration is wrong.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Restart failed tasks",
        )
        .define(
            AUTO_RESTART_MAX_ATTEMPTS,
            ConfigType.INT,
            default=7,
            validator=Range(0),
            importance=_LOW,
            documentation="The most automatic restarts of a task in a row. A task that ran for 10 min, and one that "
            "was restarted by hand, begins at 0 again.",
            group=_ERRORS,
            width=Width.SHORT,
            display_name="Most restarts in a row",
        )
    )


def delivery_settings(keys: ConfigDef) -> None:
    """Topics, transactions and offsets."""
    groups_setting(keys)
    (
        keys.define(
            EXACTLY_ONCE_SUPPORT,
            ConfigType.STRING,
            default="requested",
            validator=OneOf("requested", "required", ignore_case=True),
            recommender=Choices("requested", "required"),
            importance=_MEDIUM,
            documentation="required: refuse a connector that does not say it can be exactly once. requested: run it.",
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
            "where the connector says so (connector), if it can.",
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
            documentation="With transaction.boundary=interval, the milliseconds between commits; else without effect. "
            "The worker's offset.flush.interval.ms where it is left out.",
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
            documentation="A topic of this connector's own for its source offsets. The worker's where it is left out.",
            group=_OFFSETS,
            width=Width.LONG,
            display_name="Offsets topic",
        )
    )
