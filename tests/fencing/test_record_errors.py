"""A bad record: failed, retried, skipped or kept, by the connector's `errors.*`."""

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence

import pytest

from ringfence.connectors.api import DataException, RetriableError, SourceRecord, UnreadableRecord
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.metrics import Measures
from ringfence.fencing.records.dead_letter import DeadLetter, failure_of
from ringfence.fencing.records.error_handling import ErrorPolicy, RecordErrors, Stage
from ringfence.fencing.records.prepared_batch import PreparedBatch
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.topics.status import failed_record
from ringfence.fencing.topics.status_entry import NOTE, error_of
from ringfence.fencing.transactions.record_columns import Record
from tests.support.logs import own_messages

PARTITION = {"file": "a"}
TASK = TaskId(ConnectorName("flights"), 3)


class Time:
    """A clock that moves only by pauses."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class Fragile:
    """Converts strings; `bad` cannot be converted, `slow` needs three calls, `worse` fails in a transform."""

    raw = False
    transforms = True
    column = None
    converters = None
    converter_classes: Mapping[Stage, str] = {stage: f"Fragile{stage.title()}" for stage in Stage}

    def __init__(self) -> None:
        self.tries, self.needed = 0, 4

    @property
    def transforms_by_class(self) -> Sequence[tuple[str, Callable[[SourceRecord], SourceRecord | None]]]:
        return [("Keep", lambda record: record), ("Checks", self.record)]

    def record(self, record: SourceRecord) -> SourceRecord | None:
        if record.value == "worse":
            raise KeyError("a field that is not there")
        return None if record.value == "drop" else record

    def key(self, topic: str, value: object, schema: object = None) -> bytes | None:
        return str(value).encode()

    def value(self, topic: str, value: object, schema: object = None) -> bytes | None:
        if value == "bad":
            raise ValueError("the secret hunter2 is no text")
        if value == "slow":
            self.tries += 1
            if self.tries < self.needed:
                raise RetriableError("not yet")
        return str(value).encode()

    def headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]:
        return [(name, str(value).encode()) for name, value in headers]


class Made:
    """A path with its parts."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.time, self.measures, self.convert = Time(), Measures(), Fragile()
        policy = ErrorPolicy.of(config)
        errors = RecordErrors(
            policy,
            self.convert,
            TASK,
            self.measures,
            self.time,
            self.time.pause,
            lambda text: text.replace("hunter2", "…"),
            config,
        )
        self.path = RecordPath(self.convert, "offsets", errors=errors)

    def produced(self, *values: object, topic: str = "t") -> list[Record]:
        self.batch = [
            SourceRecord(PARTITION, {"line": number}, topic, value, f"k{number}", [("h", 1)], 5)
            for number, value in enumerate(values)
        ]
        self.prepared = self.path.prepare(self.batch)
        return records_of(self.prepared)


def records_of(prepared: PreparedBatch) -> list[Record]:
    return [each for columns in prepared.columns for each in columns.records()]


SECRET = (
    'The record for topic t at source offset {"line":LINE}: FragileValue_Converter, the value converter, refused it: '
    "ValueError: the secret hunter2 is no text. errors.tolerance=all skips such records, and "
    "errors.deadletterqueue.topic.name keeps them"
)

TOLERANT = {"errors.tolerance": "all"}
KEPT = {**TOLERANT, "errors.deadletterqueue.topic.name": "bad-records"}


def test_without_settings_a_bad_record_fails_the_task() -> None:
    with pytest.raises(DataException, match="is no text"):
        Made({}).produced("good", "bad")
    assert ErrorPolicy.of({"errors.deadletterqueue.topic.name": "x"}).dead_letters is None


@pytest.mark.parametrize(
    ("value", "stage", "alias", "settings"),
    [
        ("worse", "TRANSFORMATION", "check", ("transforms.check.spec",)),
        ("bad", "VALUE_CONVERTER", "", ("value.converter", "value.converter.schemas.enable")),
    ],
)
def test_the_error_names_its_record(value: str, stage: str, alias: str, settings: tuple[str, ...]) -> None:
    config = {"transforms": "keep, check", "transforms.check.type": "Checks", "transforms.check.spec": "x"}
    config |= {"value.converter.schemas.enable": "false"}
    with pytest.raises(DataException) as raised:
        Made(config).produced("good", value)
    failure = failure_of(raised.value)
    assert failure is not None
    assert (failure.stage, failure.alias, failure.settings, failure.value) == (stage, alias, settings, value)
    assert (failure.partition, failure.offset) == ('{"file":"a"}', '{"line":1}')
    assert failed_record.read(failure.fields()) == failure


def test_a_tolerated_record_is_skipped_and_its_offset_is_not() -> None:
    made = Made(TOLERANT)
    assert [call[1] for call in made.produced("a", "bad", "worse", "b", "bad")] == [b"a", b"b"]
    assert made.prepared.offsets == [(PARTITION, {"line": 4})]
    assert (made.measures.records_skipped, made.measures.record_failures, made.measures.dead_letters) == (3, 3, 0)


def test_a_dead_letter_is_the_record_with_all_that_is_known_of_its_failure() -> None:
    made = Made(KEPT)
    good, letter, other = made.produced("a", "bad", "worse")
    assert good[:4] == ("t", b"a", b"k0", -1)
    assert letter[:5] == ("bad-records", b"bad", b"k1", -1, 5)
    headers = dict(letter[5] or ())
    assert headers["h"] == b"1"
    told = {
        name.removeprefix("__connect.errors."): (value or b"").decode()
        for name, value in headers.items()
        if name != "h"
    }
    kept = DeadLetter((0, 0), 5, b"k1", b"bad", letter[5] or ()).record()
    assert (kept.topic, kept.key, kept.value, kept.headers) == ("t", "k1", "bad", [("h", 1)])
    assert (kept.timestamp, kept.source_partition, kept.source_offset) == (5, PARTITION, {"line": 1})
    del told["record"]
    trace = told.pop("exception.stacktrace")
    assert "Traceback" in trace
    assert "hunter2" not in trace
    assert told == {
        "topic": "t",
        "connector.name": "flights",
        "task.id": "3",
        "stage": "VALUE_CONVERTER",
        "class.name": "FragileValue_Converter",
        "exception.class.name": "builtins.ValueError",
        "exception.message": SECRET.replace("hunter2", "…").replace("LINE", "1"),
        "source.partition": '{"file":"a"}',
        "source.offset": '{"line":1}',
    }
    stage = dict(other[5] or ())["__connect.errors.stage"]
    by = dict(other[5] or ())["__connect.errors.class.name"]
    assert (stage, by) == (b"TRANSFORMATION", b"Checks")
    assert made.prepared.topics == {"t"}, "the dead letter topic is not one of the connector's"
    assert made.measures.dead_letters == 2


def test_what_no_converter_could_take_is_kept_as_json() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    made = Made(KEPT)
    made.convert.value = lambda topic, value, schema=None: b"".join([value])  # type: ignore[method-assign, list-item]
    kept = [call[1] for call in made.produced({"a": [1, Odd()]}, 7, None)]
    assert kept == [b'{"a":[1,"<odd>"]}', b"7", None]


def test_only_what_asks_for_it_is_tried_again_with_growing_pauses() -> None:
    made = Made({"errors.retry.timeout": "10000", "errors.retry.delay.max.ms": "1000"})
    assert [call[1] for call in made.produced("slow")] == [b"slow"]
    assert made.time.pauses == [0.3, 0.6]
    assert made.measures.retries == 2
    with pytest.raises(DataException, match="is no text"):
        made.produced("bad")
    assert made.time.pauses == [0.3, 0.6]


def test_the_retries_end_in_time() -> None:
    made = Made({"errors.retry.timeout": "500"})
    made.convert.needed = 1000
    with pytest.raises(RetriableError, match="not yet") as caught:
        made.produced("slow")
    assert made.time.pauses == [0.3, pytest.approx(0.2)]
    assert "VALUE_CONVERTER" in caught.value.__notes__[0]
    assert ErrorPolicy.of({"errors.retry.timeout": "-1"}).retry_s == float("inf")


def test_without_a_time_for_retries_the_first_failure_counts() -> None:
    made = Made({"errors.retry.timeout": "0"})
    with pytest.raises(RetriableError, match="not yet"):
        made.produced("slow")
    assert made.time.pauses == []
    assert ErrorPolicy.of({}) == ErrorPolicy()


def test_a_pause_that_is_ended_from_outside_is_no_records_fault() -> None:
    class Ended(Exception):
        pass

    def end(seconds: float) -> None:
        raise Ended

    made = Made({**TOLERANT, "errors.retry.timeout": "-1"})
    made.convert.needed = 1000
    made.path._errors._pause = end  # type: ignore[union-attr]
    with pytest.raises(Ended):
        made.produced("slow")
    assert made.measures.records_skipped == 0


def test_writing_to_the_offsets_topic_is_never_tolerated() -> None:
    with pytest.raises(Exception, match="holds its own source offsets"):
        Made(KEPT).produced("a", topic="offsets")


def test_the_log_tells_place_and_error_and_contents_only_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Made(TOLERANT).produced("bad")
    assert not own_messages(caplog)
    Made({**TOLERANT, "errors.log.enable": "true"}).produced("bad")
    assert SECRET.replace("hunter2", "…").replace("LINE", "0") in caplog.text
    assert "at stage VALUE_CONVERTER in FragileValue_Converter" in caplog.text
    assert '"line":0' in caplog.text
    assert "'bad'" not in caplog.text
    Made({**TOLERANT, "errors.log.enable": "true", "errors.log.include.messages": "true"}).produced("bad")
    assert "the value 'bad' and the key 'k0'" in caplog.text


def test_a_trace_tells_its_error_and_names_the_record_after_it() -> None:
    with pytest.raises(DataException, match="is no text") as raised:
        Made({}).produced("bad")
    trace = "".join(traceback.format_exception(raised.value))
    assert trace.strip().splitlines()[-1].startswith(NOTE)
    assert error_of(trace).endswith(SECRET.replace("LINE", "0"))


class Unreadable:
    """A path whose task could not read the second of three rows."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.made = Made({"connector.class": "TableSource", **config})
        self.error = DataException(
            "NaN is not a decimal", value="NaN", where="The table a", row="id=7", column="price", settings=("nan.mode",)
        )
        first = SourceRecord(PARTITION, {"line": 0}, "t", "good")
        second = UnreadableRecord(PARTITION, {"line": 1}, "t", self.error, '{"id":7,"price":"hunter2"}')
        self.batch = [first, second, SourceRecord(PARTITION, {"line": 2}, "t", "other")]


def test_a_row_that_cannot_be_read_fails_the_task_and_the_error_says_where_it_is() -> None:
    scene = Unreadable({})
    with pytest.raises(DataException) as raised:
        scene.made.path.prepare(scene.batch)
    assert str(raised.value) == (
        "The table a, row id=7, column price: NaN is not a decimal (a value like NaN). errors.tolerance=all skips such "
        "records, and errors.deadletterqueue.topic.name keeps them"
    )
    failure = failure_of(raised.value)
    assert failure is not None
    assert (failure.stage, failure.class_name, failure.settings) == ("TASK_POLL", "TableSource", ("nan.mode",))
    assert (failure.partition, failure.offset) == ('{"file":"a"}', '{"line":1}')
    assert failure.value == '{"id":7,"price":"…"}'


def test_a_tolerated_row_that_cannot_be_read_is_skipped_in_its_place() -> None:
    scene = Unreadable(TOLERANT)
    prepared = scene.made.path.prepare(scene.batch)
    assert [call[1] for call in records_of(prepared)] == [b"good", b"other"]
    assert prepared.offsets == [(PARTITION, {"line": 2})]
    assert (prepared.skipped, prepared.dead_letters, scene.made.measures.records_skipped) == (1, 0, 1)
    alone = scene.made.path.prepare([scene.batch[1]])
    assert (alone.columns, alone.offsets) == ([], [(PARTITION, {"line": 1})])


def test_the_dead_letter_of_an_unreadable_row_keeps_what_was_read() -> None:
    scene = Unreadable(KEPT)
    _, letter = sorted(records_of(scene.made.path.prepare(scene.batch)), key=lambda each: each[0] == "bad-records")[-2:]
    assert letter[:2] == ("bad-records", b'{"id":7,"price":"hunter2"}')
    headers = dict(letter[5] or ())
    assert headers["__connect.errors.stage"] == b"TASK_POLL"
    assert str(headers["__connect.errors.exception.class.name"]).endswith("DataException'")
    message = headers["__connect.errors.exception.message"] or b""
    assert message.startswith(b"The table a, row id=7, column price: NaN is")
