"""The common settings for errors: retries, tolerance, dead letters, and restarts of failed tasks."""

from typing import Final

from ringfence.connectors.api import Choices, ConfigDef, ConfigType, Importance, NonEmpty, OneOf, Range, Width

DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
AUTO_RESTART_ENABLED: Final = "auto.restart.enabled"
AUTO_RESTART_MAX_ATTEMPTS: Final = "auto.restart.max.attempts"

_GROUP: Final = "Error Handling"
_MEDIUM, _LOW = Importance.MEDIUM, Importance.LOW


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
            group=_GROUP,
            width=Width.MEDIUM,
            display_name="Retry timeout for errors",
        ).define(
            "errors.retry.delay.max.ms",
            ConfigType.LONG,
            default=60000,
            validator=Range(1),
            importance=_MEDIUM,
            documentation="The maximum pause between two attempts, in milliseconds. Without retries it has no effect.",
            group=_GROUP,
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
            documentation="none: a record that cannot be read, transformed or converted fails the task. all: the "
            "record is skipped and its source offset is committed. A dead letter topic keeps it, if one is set.",
            group=_GROUP,
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
            group=_GROUP,
            width=Width.SHORT,
            display_name="Log errors",
        )
        .define(
            "errors.log.include.messages",
            ConfigType.BOOLEAN,
            default=False,
            importance=_MEDIUM,
            documentation="Also log the record's key and value. They may contain personal data or secrets.",
            group=_GROUP,
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
            group=_GROUP,
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
            group=_GROUP,
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
            group=_GROUP,
            width=Width.SHORT,
            display_name="Most restarts in a row",
        )
    )
