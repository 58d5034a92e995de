import pytest

from ringfence.connectors.api import ConnectorError, RecordBatch, SourceRecord
from ringfence.connectors.builtin.verifiable.connector import VerifiableSourceConnector
from ringfence.connectors.builtin.verifiable.task import MOST_AT_ONCE, FixedRate, VerifiableSourceTask
from tests.connectors.fakes import FakeContext, FakeOffsets


def started(seqno: int | None = None, *, raw: bool = False, **settings: str) -> VerifiableSourceTask:
    task = VerifiableSourceTask()
    known = [] if seqno is None else [({"id": 1}, {"seqno": seqno})]
    task.context = FakeContext(FakeOffsets(known), raw=raw)
    task.start(
        {"name": "v", "topic": "n", "id": "1", **{name.replace("_", "."): value for name, value in settings.items()}}
    )
    return task


def records(task: VerifiableSourceTask) -> list[SourceRecord]:
    polled = task.poll()
    assert isinstance(polled, list)
    return polled


def test_numbers_start_at_zero_and_go_on_after_the_committed_one() -> None:
    task = started()
    numbers = [record.value for _ in range(3) for record in records(task)]
    assert numbers == list(range(3 * MOST_AT_ONCE))
    first = records(started(41))[0]
    assert (first.value, first.key, first.source_offset, first.source_partition) == (42, 1, {"seqno": 42}, {"id": 1})


def test_a_raw_batch_holds_the_same_numbers() -> None:
    batch = started(9, raw=True).poll()
    assert isinstance(batch, RecordBatch)
    assert list(batch.values[:2]) == [b"10", b"11"]
    assert (next(iter(batch.keys or [])), batch.source_offset) == (b"1", {"seqno": 9 + len(batch)})


def test_a_complete_record_names_everything() -> None:
    value = records(started(raw=True, complete_record_data="true"))[5].value
    assert isinstance(value, dict)
    assert {name: value[name] for name in ("name", "task", "topic", "seqno")} == {
        "name": "v",
        "task": 1,
        "topic": "n",
        "seqno": 5,
    }
    assert list(value) == ["name", "task", "topic", "time_ms", "seqno"]


def test_the_rate_is_kept_and_a_long_pause_is_not_made_up_for() -> None:
    rate = FixedRate(100, now=0.0)
    assert [rate.due(now) for now in (0.0, 0.005, 0.0101, 0.5, 0.5)] == [0, 0, 1, 49, 0]
    assert rate.seconds_to_next(0.5) == pytest.approx(0.01)
    assert rate.due(1000.0) == 100
    assert FixedRate(-1, 0.0).due(0.0) == MOST_AT_ONCE


def test_a_throttled_task_waits_and_returns() -> None:
    task = started(throughput="0")
    assert task.poll() is None
    assert isinstance(task.context, FakeContext)
    assert task.context.waits == [0.5]


def test_a_task_with_a_rate_tells_when_it_has_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nobody could say as of when its data is."""
    times = iter([0.0, 0.0, 0.0, 0.02, 0.02])
    monkeypatch.setattr("ringfence.connectors.builtin.verifiable.task.time.monotonic", lambda: next(times))
    task = started(throughput="100")
    assert task.poll() is None
    assert [record.value for record in records(task)] == [0, 1]


def test_every_task_has_its_number() -> None:
    connector = VerifiableSourceConnector()
    connector.start({"topic": "n"})
    assert connector.task_configs(2) == [{"topic": "n", "id": "0"}, {"topic": "n", "id": "1"}]


def test_offsets_by_hand_are_checked() -> None:
    alter = VerifiableSourceConnector().alter_offsets
    assert alter({}, [({"id": 0}, {"seqno": 5}), ({"x": 0}, None)])
    with pytest.raises(ConnectorError, match="partition"):
        alter({}, [({"id": "0"}, {"seqno": 5})])
    with pytest.raises(ConnectorError, match="offset"):
        alter({}, [({"id": 0}, {"seqno": -2})])
