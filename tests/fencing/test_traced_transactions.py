"""Of many transactions an attempt reports few for traces: those that a trace leads to, and samples of the others."""

import json
from dataclasses import replace
from typing import cast

import pytest

from ringfence.connectors.api.records import EncodedBatch, EncodedBatches
from ringfence.fencing.records.prepared_batch import PreparedBatch
from ringfence.fencing.request_context import RequestContext
from ringfence.fencing.task.attempt_report import Counters, TaskReport
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.task.traced_transactions import (
    ABORTED,
    COMMITTED,
    FAILED,
    MOST,
    MOST_CONTEXTS,
    TracedTransactions,
)
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.transactions.compression import CODECS
from tests.support.task_reports import Heard, Watch
from tests.support.task_specs import SPEC

OF_REQUEST = f"00-{'a' * 32}-{'b' * 16}-01"


def context(number: int, *, flags: str = "01") -> str:
    return f"00-{number:032x}-{number:016x}-{flags}"


def batch_with(*contexts: str, others: int = 0) -> PreparedBatch:
    ready = PreparedBatch([])
    headers = [[("h", b"1"), ("traceparent", each.encode())] for each in contexts]
    ready.add_columns("t", [b"v"] * (others + len(headers)), headers=[*[None] * others, *headers])
    return ready


def transact(traced: TracedTransactions, *batches: PreparedBatch, outcome: str = COMMITTED) -> None:
    traced.begin(7, 3)
    for each in batches:
        traced.look(each)
    traced.begin_commit(sum(each.count for each in batches))
    traced.note_answer()
    traced.end(outcome)


def test_the_first_leads_on_from_the_request_and_of_the_others_one_in_ten_seconds() -> None:
    clock = Watch()
    traced = TracedTransactions(clock, OF_REQUEST)
    for _ in range(2500):
        transact(traced, batch_with(others=5))
        clock.now += 0.01
    reported = traced.take()
    assert [each["parent"] for each in reported] == [OF_REQUEST, "", ""]
    assert [each["links"] for each in reported] == [[], [OF_REQUEST], [OF_REQUEST]]
    first = reported[0]
    assert (first["outcome"], first["records"], first["producer_id"], first["epoch"]) == (COMMITTED, 5, 7, 3)
    assert traced.take() == []


def test_a_sampled_record_leads_to_its_transaction() -> None:
    traced = TracedTransactions(Watch(), OF_REQUEST)
    transact(traced)
    traced.take()
    transact(traced, batch_with(context(1, flags="00")), batch_with(context(2), context(3), context(2)))
    transact(traced, batch_with(context(4, flags="00"), "00-no-context-01"))
    (one,) = traced.take()
    assert one["parent"] == context(2)
    assert one["links"] == [context(3), OF_REQUEST]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_so_does_a_record_in_an_encoded_batch(codec: str) -> None:
    header = b"\x16traceparent\x6e"
    data = b"\x00" + b"value" * 20 + header + context(1, flags="00").encode() + b"\x00" + header + context(2).encode()
    if codec != "none":
        data = CODECS[codec].compress(data, None)
    number = 0 if codec == "none" else CODECS[codec].number
    batches = [EncodedBatch("t", 0, 2, 50, 0, 1, 1, data, number), EncodedBatch("t", 0, 1, 9, 0, 1, 1, b"\x1f", 4)]
    traced = TracedTransactions(Watch())
    ready = PreparedBatch(EncodedBatches([({}, {})], batches))
    transact(traced, ready)
    (one,) = traced.take()
    assert (one["parent"], one["links"]) == (context(2), [])


def test_what_fails_is_always_reported() -> None:
    traced = TracedTransactions(Watch())
    transact(traced)
    transact(traced, outcome=FAILED)
    transact(traced, outcome=ABORTED)
    traced.end(ABORTED)  # nothing is open
    assert [each["outcome"] for each in traced.take()] == [COMMITTED, FAILED, ABORTED]


def test_it_is_bounded() -> None:
    clock = Watch()
    traced = TracedTransactions(clock)
    for number in range(1, 100):
        transact(traced, batch_with(*(context(number * 100 + each) for each in range(40))))
    reported = traced.take()
    assert len(reported) == MOST
    assert all(len(cast(list[str], each["links"])) < MOST_CONTEXTS for each in reported)
    for _ in range(3):
        transact(traced, batch_with(*[context(1, flags="00")] * 5000))
    transact(traced, batch_with(context(1)))
    assert traced.take() == [], "enough was looked at in this second"
    clock.now += 1
    transact(traced, batch_with(context(1)))
    assert len(traced.take()) == 1


def test_a_report_carries_them_where_somebody_exports_traces() -> None:
    for traces in (True, False):
        heard, clock = Heard(), Watch()
        traced = TracedTransactions(clock) if traces else None
        report = TaskReport(SPEC, cast(Reporter, heard), Counters(traced=traced), clock)
        if traced is not None:
            transact(traced)
        report.progress()
        report.progress()
        assert ["traced" in event for event in heard.events] == [traces, False]


def test_an_attempt_knows_whether_somebody_does() -> None:
    spec = replace(SPEC, traced=True, request=RequestContext("r", OF_REQUEST))
    assert TaskSpec.loads(spec.dumps()).traced
    text = json.loads(SPEC.dumps())
    del text["traced"]  # of a worker of the version before
    assert not TaskSpec.loads(json.dumps(text)).traced
