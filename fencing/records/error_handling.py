"""What happens to a record that a transform or converter rejects (KIP-298): it is retried, skipped, or kept for later.

A skipped record may go to a dead letter topic, in the same transaction as its source offset. So it is there exactly
once, and is never both skipped and lost. Errors of Kafka's clients are not caused by a record; this module does not
handle them.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from ringfence.connectors.api import (
    ConfigException,
    ConnectorError,
    Converters,
    DataException,
    RetriableError,
    Schema,
    SourceRecord,
    UnreadableRecord,
)
from ringfence.connectors.columns import Column
from ringfence.connectors.sdk.delivery import DEAD_LETTERS
from ringfence.connectors.transforms.registry import aliases
from ringfence.fencing.clock import Clock
from ringfence.fencing.ids import TaskId
from ringfence.fencing.metrics import Measures
from ringfence.fencing.records.dead_letter import as_bytes, as_json, attach, make_dead_letter, settings_of
from ringfence.fencing.topics.status.failed_record import RecordFailure, shorten
from ringfence.fencing.topics.status_entry import NOTE
from ringfence.fencing.transactions.record_columns import Record

TOLERANCE = "errors.tolerance"
RETRY_TIMEOUT = "errors.retry.timeout"
RETRY_DELAY_MAX = "errors.retry.delay.max.ms"
LOG = "errors.log.enable"
LOG_MESSAGES = "errors.log.include.messages"


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """A connector's `errors.*` settings. `retry_s`: infinity for -1."""

    tolerant: bool = False
    retry_s: float = 0.0
    delay_max_s: float = 60.0
    log: bool = False
    log_messages: bool = False
    dead_letters: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "ErrorPolicy":
        """Read the policy from a validated configuration."""
        tolerant = config.get(TOLERANCE, "none").strip().lower() == "all"
        retry_ms = int(config.get(RETRY_TIMEOUT, "0"))
        return cls(
            tolerant,
            float("inf") if retry_ms < 0 else retry_ms / 1000,
            int(config.get(RETRY_DELAY_MAX, "60000")) / 1000,
            _true(config, LOG),
            _true(config, LOG_MESSAGES),
            (config.get(DEAD_LETTERS, "").strip() or None) if tolerant else None,
        )


def _true(config: Mapping[str, str], name: str) -> bool:
    return config.get(name, "false").strip().lower() == "true"


log = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.3
_SKIP: Final = "errors.tolerance=all skips such records, and errors.deadletterqueue.topic.name keeps them"

Answer = TypeVar("Answer")
Argument = TypeVar("Argument")


class Stage(StrEnum):
    """Where a record failed, with Kafka Connect's names."""

    TRANSFORMATION = "TRANSFORMATION"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    TASK_POLL = "TASK_POLL"


class ConversionSteps(Protocol):
    """The steps of a record one by one: slower than `fencing.records.record_path.Convert`, but the failing step is
    known.
    """

    @property
    def transforms_by_class(self) -> Sequence[tuple[str, Callable[[SourceRecord], SourceRecord | None]]]: ...

    @property
    def converter_classes(self) -> Mapping[Stage, str]: ...

    def key(self, topic: str, value: object, schema: Schema | None) -> bytes | None: ...

    def value(self, topic: str, value: object, schema: Schema | None) -> bytes | None: ...

    def headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]: ...


class RecordErrors:
    """Handles the record errors of one task. All methods are called on the task's thread."""

    def __init__(
        self,
        policy: ErrorPolicy,
        steps: ConversionSteps,
        task: TaskId,
        measures: Measures,
        clock: Clock,
        pause: Callable[[float], None],
        redact: Callable[[str], str] = str,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """pause: waits that many seconds; raises if the attempt must end. redact: takes secrets out of a string.
        config: the connector's, for the names of its settings.
        """
        self._config = config or {}
        self._aliases = aliases(self._config, "transforms")
        self._policy = policy
        self._steps = steps
        self._task = task
        self._measures = measures
        self._clock = clock
        self._pause = pause
        self._redact = redact

    @property
    def dead_letters(self) -> str | None:
        """The topic for the dead letters; None for none."""
        return self._policy.dead_letters

    @property
    def given_up(self) -> int:
        """How many records have been skipped so far, with or without a dead letter."""
        return self._measures.records_skipped

    def produce_of(self, record: SourceRecord, check: Callable[[str], None]) -> Record | None:
        """Return what to produce for a record that has just failed: the record itself, a dead letter, or nothing.

        check(topic): raises for a topic that no record may go to. Raises the record's error if it is not tolerated.
        """
        steps = self._steps
        stage, by, alias = Stage.TRANSFORMATION, "", ""
        try:
            current: SourceRecord | None = record
            for place, (name, apply) in enumerate(steps.transforms_by_class):
                by = name
                alias = self._aliases[place] if place < len(self._aliases) else ""
                current = self._retry(lambda apply=apply, current=current: apply(current))  # type: ignore[misc]
                if current is None:
                    return None
            assert current is not None
            out, topic, alias = current, current.topic, ""
            _not_the_records(check, topic)
            stage, by = Stage.HEADER_CONVERTER, steps.converter_classes[Stage.HEADER_CONVERTER]
            headers = self._retry(lambda: steps.headers(topic, out.headers)) if out.headers else None
            stage, by = Stage.KEY_CONVERTER, steps.converter_classes[Stage.KEY_CONVERTER]
            no_key = out.key is None and out.key_schema is None
            key = None if no_key else self._retry(lambda: steps.key(topic, out.key, out.key_schema))
            stage, by = Stage.VALUE_CONVERTER, steps.converter_classes[Stage.VALUE_CONVERTER]
            value = self._retry(lambda: steps.value(topic, out.value, out.value_schema))
        except _NotTheRecords as stop:
            raise stop.error from None
        except Exception as error:  # noqa: BLE001 - a plugin's; tolerated only where the user said so
            return self._give_up(record, stage, by, error, alias)
        to = -1 if out.partition is None else out.partition
        return topic, value, key, to, out.timestamp or 0, headers

    def _retry(self, step: Callable[[], Answer]) -> Answer:
        """Repeat a step that raises `RetriableError`, with doubling pauses, for at most `errors.retry.timeout`."""
        deadline = self._clock.monotonic() + self._policy.retry_s
        delay = _FIRST_DELAY_S
        while True:
            try:
                return step()
            except RetriableError:
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    raise
                self._measures.count_retry(self._clock)
                _not_the_records(self._pause, min(delay, self._policy.delay_max_s, left))
                delay *= 2

    def _give_up(self, record: SourceRecord, stage: Stage, by: str, error: Exception, alias: str) -> Record | None:
        framed = _frame(record, stage, by, error, alias)
        if self._policy.log:
            self._say(record, stage, by, framed)
        if not self._policy.tolerant:
            failure = self._failure(record, stage, by, alias, framed)
            place = f"source partition {failure.partition}, source offset {failure.offset}"
            framed.add_note(f"{NOTE}{stage}, class {by}, {place}.")
            attach(framed, failure)
            raise framed
        self._measures.count_skipped(self._clock)
        if self._policy.dead_letters is None:
            return None
        self._measures.dead_letters += 1
        return self._dead_letter(self._policy.dead_letters, record, stage, by, framed)

    def skip_unreadable(self, record: UnreadableRecord) -> Record | None:
        """Return the dead letter of a row that the task could not read, or None. Raises its error unless tolerated."""
        return self._give_up(record, Stage.TASK_POLL, self._config.get("connector.class", ""), record.error, "")

    def letter_of(self, record: SourceRecord, by: str, error: Exception) -> Record:
        """Return the dead letter of a record that its task could not even return. Requires `dead_letters`."""
        assert self.dead_letters is not None
        if self._policy.log:
            self._say(record, Stage.TASK_POLL, by, error)
        self._measures.count_skipped(self._clock)
        self._measures.dead_letters += 1
        return self._dead_letter(self.dead_letters, record, Stage.TASK_POLL, by, error)

    def _failure(self, record: SourceRecord, stage: Stage, by: str, alias: str, error: Exception) -> RecordFailure:
        value = (as_bytes(record.value) or b"").decode("utf-8", "replace")
        return RecordFailure(
            stage,
            by,
            alias,
            error.settings
            if stage is Stage.TASK_POLL and isinstance(error, DataException)
            else settings_of(self._config, stage, alias),
            record.topic,
            self._redact(as_json(record.source_partition)),
            self._redact(as_json(record.source_offset)),
            shorten(self._redact(value)),
        )

    def _say(self, record: SourceRecord, stage: Stage, by: str, error: Exception) -> None:
        self._measures.errors_logged += 1
        content = f", with the value {record.value!r} and the key {record.key!r}" if self._policy.log_messages else ""
        place = f"source partition {as_json(record.source_partition)}, source offset {as_json(record.source_offset)}"
        text = (
            f"Error in task {self._task} at stage {stage} in {by}: {type(error).__name__}: {error} ({place}{content})"
        )
        log.warning("%s", self._redact(text))

    def _dead_letter(self, topic: str, record: SourceRecord, stage: Stage, by: str, error: Exception) -> Record:
        key, value, headers = make_dead_letter(record, self._task, stage, by, error, self._redact)
        return topic, value, key, -1, record.timestamp or 0, headers


def _frame(record: SourceRecord, stage: Stage, by: str, error: Exception, alias: str) -> Exception:
    """Return the error as a `DataException` that says where it was and what can be done.

    An error that is not the record's stays as it is: the configuration's, or one that another try may not have.
    """
    if isinstance(error, ConfigException | RetriableError):
        return error
    where = f"The record for topic {record.topic} at source offset {as_json(record.source_offset)}"
    if isinstance(error, DataException):
        framed = error.at(where=where)
    else:
        text = str(error) if isinstance(error, ConnectorError) else f"{type(error).__name__}: {error}"
        who = f"the transform {alias} ({by})" if alias else f"{by}, the {stage.lower().replace('_', ' ')},"
        framed = DataException(f"{who} refused it: {text}", where=where)
        framed.__cause__ = error
    framed.remedy = f"{framed.remedy.rstrip('.')}. {_SKIP}" if framed.remedy else _SKIP
    return framed


class _NotTheRecords(Exception):
    """Carries an error that no record caused past the handling of record errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _not_the_records(call: Callable[[Argument], None], argument: Argument) -> None:
    try:
        call(argument)
    except Exception as error:
        raise _NotTheRecords(error) from error


class Convert(ConversionSteps, Protocol):
    """What the path needs from converters and transforms. Created once per task."""

    raw: bool
    """Whether `RecordBatch` is allowed."""

    def record(self, record: SourceRecord) -> SourceRecord | None:
        """Return the record after all transforms; None drops it."""
        ...

    transforms: bool

    @property
    def converters(self) -> Converters | None:
        """The converters, if `SerializedRecords` is allowed."""
        ...

    @property
    def column(self) -> Callable[[Column], list[bytes | None] | None] | None:
        """A function that transforms and converts the values of many records at once, and returns None for records that
        must be handled one by one. None if all must be.
        """
        ...
