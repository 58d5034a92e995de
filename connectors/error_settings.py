"""The common settings for errors: retries, tolerance, dead letters, and restarts of failed tasks."""

from typing import Final

from ringfence.connectors.api import ConfigDef, Importance, NonEmpty, Width
from ringfence.connectors.sdk.delivery import DEAD_LETTERS

AUTO_RESTART_ENABLED: Final = "auto.restart.enabled"
AUTO_RESTART_MAX_ATTEMPTS: Final = "auto.restart.max.attempts"


def error_settings(keys: ConfigDef) -> None:
    """Define what happens to records that cannot be transformed or converted, and to failed tasks."""
    errors = keys.group("Error Handling")
    errors.long(
        "errors.retry.timeout",
        "How long, in milliseconds, a transform or converter is called again after a RetriableError. 0: never; -1: "
        "without a limit.",
        0,
        -1,
        width=Width.MEDIUM,
        display_name="Retry timeout for errors",
    )
    errors.long(
        "errors.retry.delay.max.ms",
        "The maximum pause between two attempts, in milliseconds. Without retries it has no effect.",
        60000,
        1,
        width=Width.MEDIUM,
        display_name="Longest pause between retries",
    )
    errors.choice(
        "errors.tolerance",
        "none: a record that cannot be read, transformed or converted fails the task. all: the record is skipped and "
        "its source offset is committed. A dead letter topic keeps it, if one is set.",
        ("none", "all"),
        "none",
        display_name="Error tolerance",
    )
    errors.flag(
        "errors.log.enable",
        "Log the error of each record that fails, even if it is tolerated. An error that fails the task is always "
        "logged.",
        False,
        width=Width.SHORT,
        display_name="Log errors",
    )
    errors.flag(
        "errors.log.include.messages",
        "Also log the record's key and value. They may contain personal data or secrets.",
        False,
        width=Width.SHORT,
        display_name="Log error details",
    )
    errors.text(
        DEAD_LETTERS,
        "With errors.tolerance=all, the topic for skipped records. They are written in the same transaction as their "
        "source offsets, with stage, class, error, source partition and source offset as headers. The topic is created "
        "if it is missing.",
        None,
        validator=NonEmpty(),
        width=Width.MEDIUM,
        display_name="Dead letter topic",
    )
    errors.flag(
        AUTO_RESTART_ENABLED,
        "Whether a failed task restarts automatically: after 10 s, then after pauses that double up to 10 min. A task "
        "that reports a wrong configuration is not restarted.",
        True,
        importance=Importance.LOW,
        width=Width.SHORT,
        display_name="Restart failed tasks",
    )
    errors.integer(
        AUTO_RESTART_MAX_ATTEMPTS,
        "The maximum number of automatic restarts of a task in a row. The count starts again after 10 min without a "
        "failure, and after a manual restart.",
        7,
        0,
        importance=Importance.LOW,
        display_name="Most restarts in a row",
    )
