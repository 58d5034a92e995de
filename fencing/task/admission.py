"""Transforms and converts records before their source accepts them, so that no stranger's record can fail the task.

Whatever a record makes a transform or a converter raise refuses this record alone, and so does everything for which a
producer or a broker would refuse it later: its size, its topic, its partition, a missing key, its time. What no record
can help, such as a topic that the connector may not write to, fails the task as ever.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.api import ConnectorError, RecordRefused, RetriableError, SourceRecord
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.producer_settings import QUEUE_BYTES
from ringfence.fencing.kafka.topic_admin import find_topic, topic_identity, topic_settings
from ringfence.fencing.records.prepared_batch import AdmittedRecord, PreparedBatch
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.records.topic_limits import TopicLimits, check_record, record_bytes
from ringfence.fencing.records.topic_name_check import check_name
from ringfence.fencing.task.clients import admin_connection
from ringfence.fencing.task.runtime import Superseded, TaskRuntime

_FRESH_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0
_MOST_TOPICS: Final = 10_000
_LARGEST_RECORD: Final = 1_000_000
"""librdkafka's default of `message.max.bytes`."""


class Admission:
    """The admissions of one run, on the task's thread."""

    def __init__(self, runtime: TaskRuntime, path: RecordPath, producer_settings: Mapping[str, str]) -> None:
        self._clock = runtime.clock
        self._spec = runtime.spec
        self._path = path
        self._redact = runtime.plugin.redact
        self._transforms = runtime.plugin.convert.transforms
        """Whether a record can choose its topic."""
        queue_kb = int(producer_settings.get("queue.buffering.max.kbytes", QUEUE_BYTES // 1024))
        self._most = min(int(producer_settings.get("message.max.bytes", _LARGEST_RECORD)), queue_kb * 1024)
        self._limits: dict[str, tuple[float, TopicLimits]] = {}
        """By topic, with the time until which they hold."""

    def admit(self, records: Sequence[SourceRecord]) -> list[SourceRecord | RecordRefused]:
        """Return for each record what `poll` returns in its place, or why it is refused."""
        outcomes: list[SourceRecord | RecordRefused] = []
        for record in records:
            if not self._transforms:
                self._path.prepare_topic(record.topic)
            try:
                outcomes.append(self._admit(record))
            except RecordRefused as refused:
                outcomes.append(refused)
        return outcomes

    def _admit(self, record: SourceRecord) -> AdmittedRecord:
        ready = self._prepare(record)
        if not ready.columns:
            return AdmittedRecord(record, ready)
        ((produced,),) = (each.records() for each in ready.columns)
        topic = produced[0]
        if self._transforms:
            self._require_topic(topic, produced[3])
        limits = self._limits_of(topic)
        try:
            size = record_bytes(produced)
        except UnicodeEncodeError as error:
            raise RecordRefused("A header's name is not valid text") from error
        check_record(produced, size, limits, self._most, round(self._clock.wall() * 1000))
        return AdmittedRecord(record, ready)

    def _prepare(self, record: SourceRecord) -> PreparedBatch:
        try:
            return self._path.prepare([record])
        except Superseded:
            raise
        except RetriableError as error:
            raise RecordRefused(self._explain(error), again=True) from error
        except FencingError as error:
            if not (self._transforms and isinstance(error, Fatal)):
                raise
            raise RecordRefused(self._explain(error)) from error  # the record has chosen a topic that cannot be created
        except Exception as error:
            again = isinstance(error, OSError | MemoryError)
            raise RecordRefused(self._explain(error), again=again) from error

    def _explain(self, error: Exception) -> str:
        notes = " ".join(getattr(error, "__notes__", ()))
        return self._redact(f"{type(error).__name__}: {error} {notes}".strip())

    def _require_topic(self, topic: str, partition: int) -> None:
        """Raise `RecordRefused` unless the topic and the partition that a transform has chosen are there."""
        try:
            check_name(topic)
        except ConnectorError as error:
            raise RecordRefused(self._explain(error)) from error
        if topic not in self._limits and not find_topic(admin_connection(self._spec), topic, self._deadline()):
            raise RecordRefused(f"The topic {topic} does not exist: create it, or have topic.creation.*", again=True)
        if partition == -1:
            return
        _, partitions = topic_identity(admin_connection(self._spec), topic, self._deadline())
        if partition not in partitions:
            raise RecordRefused(f"The topic {topic} has no partition {partition}")

    def _limits_of(self, topic: str) -> TopicLimits:
        now = self._clock.monotonic()
        until, limits = self._limits.get(topic, (0.0, TopicLimits()))
        if now < until:
            return limits
        try:
            settings = topic_settings(admin_connection(self._spec), topic, self._deadline())
            limits, fresh_s = TopicLimits() if settings is None else TopicLimits.of(settings), _FRESH_SECONDS
        except FencingError:
            fresh_s = _AGAIN_SECONDS  # it is created with its first record, or no broker answers
        if len(self._limits) >= _MOST_TOPICS:
            self._limits.clear()
        self._limits[topic] = (now + fresh_s, limits)
        return limits

    def _deadline(self) -> Deadline:
        return Deadline.after(_PATIENCE_SECONDS, self._clock)
