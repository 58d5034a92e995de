"""What tasks report of their transactions becomes spans of the traces that led to them, once."""

from collections.abc import Iterator

import pytest

from ringfence import telemetry
from ringfence.projection.models import Task
from tests.support.otlp_receiver import Receiver, plain
from tests.support.projections import progress, project
from tests.support.topics import Topic

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
OTHER = f"00-{'c' * 32}-{'d' * 16}-01"
SAMPLE = {
    "outcome": "committed", "began_ms": 1_000, "commit_ms": 1_200, "ended_ms": 1_250, "records": 50,
    "producer_id": 7, "epoch": 3, "parent": PARENT, "links": [OTHER],
}  # fmt: skip


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    listening = Receiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", listening.url)
    telemetry.start("worker", "w1")
    yield listening
    telemetry.stop()
    listening.close()


def test_a_sample_becomes_a_span_once(receiver: Receiver) -> None:
    events = Topic()
    progress(events, 2_000, 50, traced=[SAMPLE], request="deploy-1", transactional_id="g-c-0")
    project("events", events)
    project("events", events)  # as another worker's projector does
    telemetry.stop()
    ((resource, span),) = receiver.spans
    assert resource["service.name"] == "ringfence-worker"
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("transaction", TRACE, SPAN)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1_000_000_000, 1_250_000_000)
    assert [(event.name, event.time_unix_nano) for event in span.events] == [("commit", 1_200_000_000)]
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [("c" * 32, "d" * 16)]
    attributes = plain(span.attributes)
    for name, value in {
        "ringfence.request": "deploy-1", "ringfence.connector": "c", "ringfence.task": 0, "ringfence.worker": "w1",
        "ringfence.transactional_id": "g-c-0", "ringfence.producer_id": 7, "ringfence.epoch": 3,
        "ringfence.generation": 1, "ringfence.attempt": 1, "messaging.batch.message_count": 50,
        "ringfence.outcome": "committed",
    }.items():  # fmt: skip
        assert attributes[name] == value
    assert not span.status.code


def test_one_that_nobody_asked_for_begins_a_trace_and_a_failed_one_is_an_error(receiver: Receiver) -> None:
    events = Topic()
    samples = [{**SAMPLE, "parent": ""}, {**SAMPLE, "parent": "", "outcome": "unknown", "commit_ms": 0}]
    progress(events, 2_000, 50, traced=samples)
    project("events", events)
    telemetry.stop()
    (_, first), (_, second) = receiver.spans
    assert first.trace_id != second.trace_id
    assert first.parent_span_id == second.parent_span_id == b""
    assert (first.status.code, second.status.code) == (0, 2)
    assert not second.events


def test_what_is_no_sample_stops_neither_rows_nor_the_spans_beside_it(receiver: Receiver) -> None:
    events = Topic()
    odd: list[object] = [
        None, 5, "x", [], {}, {**SAMPLE, "links": "x", "parent": 7, "outcome": ["x"]},
        {**SAMPLE, "records": 10**30, "producer_id": -(10**30), "began_ms": 10**40, "ended_ms": True, "epoch": "x"},
        {**SAMPLE, "links": ["x", None, OTHER[:-1]], "parent": "00-no"}, SAMPLE,
    ]  # fmt: skip
    progress(events, 2_000, 50, traced=odd)
    progress(events, 3_000, 60, traced="x")
    progress(events, 4_000, 70, traced=[SAMPLE] * 1_000)
    project("events", events)
    telemetry.stop()
    assert Task.objects.get(connector="c", number=0).records == 70
    assert len([span for _, span in receiver.spans if span.trace_id.hex() == TRACE]) == 2 + 16
