"""A request's id goes with the records that are written for it, and with those that follow from them."""

from dataclasses import replace

import pytest

from ringfence.fencing import request_context
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.request_context import NOBODYS, RequestContext
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import fold
from ringfence.fencing.topics.config_records import CommitRecord, ConfigRecord, ConnectorRecord, encode
from tests.support.task_specs import SPEC

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ONE, TWO = RequestContext("one", TRACE), RequestContext("two")
C = ConnectorName("c")


def written(offset: int, record: ConfigRecord, request: RequestContext = NOBODYS) -> LogRecord:
    return LogRecord(0, offset, *encode(record), -1, request_context.to_headers(request))


def request_of(*records: LogRecord) -> RequestContext:
    return fold(ClusterState(), records, "connect-configs").connector(C).request


@pytest.mark.parametrize("text", ["4f1", "req_1.2:3/x+y=@z-", "a" * 100])
def test_an_id_that_can_stand_in_a_log_line_is_taken(text: str) -> None:
    assert request_context.read_id(text) == text


@pytest.mark.parametrize("text", ["", "a b", "a\nb", "ä", "a" * 101, '"', "-a", "a;b", None, 1, b"a"])
def test_any_other_is_not(text: object) -> None:
    assert request_context.read_id(text) == ""


@pytest.mark.parametrize("text", ["", TRACE + "-x", TRACE.upper(), f"ff{TRACE[2:]}", f"00-{'0' * 32}{TRACE[35:]}", 1])
def test_what_is_no_traceparent_is_dropped(text: object) -> None:
    assert request_context.read_trace(text) == ""
    assert request_context.read_trace(TRACE) == TRACE


def test_a_record_tells_its_request() -> None:
    config = ConnectorRecord(C, {"a": "b"})
    assert request_of(written(0, config, ONE)) == ONE
    assert request_of(written(0, config, ONE), written(1, CommitRecord(C, 0), TWO)) == TWO
    assert request_of(written(0, config, ONE), written(1, CommitRecord(C, 0))) == ONE, "of an earlier version"
    assert request_of(written(0, config)) == NOBODYS


def test_headers_of_others_are_no_request() -> None:
    headers = [(request_context.HEADER, b"a\nb"), (request_context.TRACEPARENT, b"x"), ("other", None)]
    assert request_of(replace(written(0, ConnectorRecord(C, {})), headers=headers)) == NOBODYS


def test_a_request_makes_no_other_state() -> None:
    """Compaction may remove it, and then the same connector must still be equal, and a blank one be forgotten."""
    states = [fold(ClusterState(), [written(0, ConnectorRecord(C, {}), each)], "t") for each in (ONE, TWO, NOBODYS)]
    assert states[0] == states[1] == states[2]
    gone = fold(states[0], [written(1, ConnectorRecord(C, None), TWO)], "t")
    assert C not in gone.connectors


def test_an_attempt_has_its_request_on_any_machine() -> None:
    assert TaskSpec.loads(replace(SPEC, request=ONE).dumps()).request == ONE


def test_a_thread_works_for_one_request_at_a_time() -> None:
    request_context.declare(TWO)
    try:
        assert request_context.current() == TWO
        with request_context.working_for(ONE):
            assert request_context.current() == ONE
        assert request_context.current() == TWO
    finally:
        request_context.declare(NOBODYS)
