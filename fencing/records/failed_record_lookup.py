"""Which record an attempt failed on: one that our record path rejected, or one that a plugin names."""

from collections.abc import Callable, Mapping
from typing import Final

from ringfence.connectors.api.errors import BadRecord
from ringfence.connectors.transforms.keys import aliases
from ringfence.fencing.topics.error_traces import NOTE
from ringfence.fencing.topics.status.failed_record import RecordFailure, shorten

_ATTRIBUTE: Final = "ringfence_record_failure"


def find_failed_record(
    error: Exception, config: Mapping[str, str], redact: Callable[[str], str]
) -> RecordFailure | None:
    """Find the record of an error or of its causes. If the plugin named it, append it to the error's stack trace.

    config: the connector's. redact: takes secrets out of a string.
    """
    failure = failure_of(error)
    cause: BaseException | None = error
    while failure is None and cause is not None:
        record = getattr(cause, "record", None)
        if isinstance(record, BadRecord):
            failure = _failure(record, config, redact)
            error.add_note(f"{NOTE}{failure.stage}, class {failure.class_name}, source offset {failure.offset}.")
        cause = cause.__cause__
    return failure


def _failure(record: BadRecord, config: Mapping[str, str], redact: Callable[[str], str]) -> RecordFailure:
    names = aliases(config, "transforms")
    alias = names[record.step] if 0 <= record.step < len(names) else ""
    return RecordFailure(
        record.stage,
        record.class_name,
        alias,
        settings_of(config, record.stage, alias),
        record.topic,
        redact(record.source_partition),
        redact(record.source_offset),
        shorten(redact(record.value)),
    )


def attach(error: Exception, failure: RecordFailure) -> None:
    """Attach the failure to the error, for `failure_of`."""
    setattr(error, _ATTRIBUTE, failure)


def failure_of(error: BaseException | None) -> RecordFailure | None:
    """Return the failure attached to the error or to one of its causes; None if there is none."""
    while error is not None:
        failure = getattr(error, _ATTRIBUTE, None)
        if isinstance(failure, RecordFailure):
            return failure
        error = error.__cause__
    return None


def settings_of(config: Mapping[str, str], stage: str, alias: str) -> tuple[str, ...]:
    """Return the names of the settings that configure a transform or converter.

    alias: the transform's, "" for a converter. Settings of the framework, such as `predicate`, are left out.
    """
    if alias:
        prefix = f"transforms.{alias}."
        framework = {prefix + name for name in ("type", "predicate", "negate", "plugin.version")}
        return tuple(sorted(name for name in config if name.startswith(prefix) and name not in framework))
    prefix = stage.lower().replace("_", ".")
    own = sorted(name for name in config if name.startswith(f"{prefix}."))
    return (prefix, *own)
