"""Which record an attempt failed on: one that our record path rejected, or one that a plugin names."""

from collections.abc import Callable, Mapping

from ringfence.connectors.api.errors import BadRecord
from ringfence.connectors.transforms.keys import aliases
from ringfence.fencing.topics import record_failures
from ringfence.fencing.topics.record_failures import NOTE, RecordFailure


def find(error: Exception, config: Mapping[str, str], redact: Callable[[str], str]) -> RecordFailure | None:
    """Find the record of an error or of its causes. If the plugin named it, append it to the error's stack trace.

    config: the connector's. redact: takes secrets out of a string.
    """
    found = record_failures.of(error)
    cause: BaseException | None = error
    while found is None and cause is not None:
        record = getattr(cause, "record", None)
        if isinstance(record, BadRecord):
            found = _failure(record, config, redact)
            error.add_note(f"{NOTE}{found.stage}, class {found.class_name}, source offset {found.offset}.")
        cause = cause.__cause__
    return found


def _failure(record: BadRecord, config: Mapping[str, str], redact: Callable[[str], str]) -> RecordFailure:
    names = aliases(config, "transforms")
    alias = names[record.step] if 0 <= record.step < len(names) else ""
    return RecordFailure(
        record.stage,
        record.class_name,
        alias,
        record_failures.settings_of(config, record.stage, alias),
        record.topic,
        redact(record.source_partition),
        redact(record.source_offset),
        record_failures.shorten(redact(record.value)),
    )
