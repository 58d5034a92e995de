"""DltSource and what REST APIs send against all expectations: each is an error with address, place and remedy, of one
row where one row is to blame; and no pages without an end.
"""

import json
import math
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import dlt
import pytest
from dlt.sources import rest_api
from dlt.sources.helpers.rest_client.client import RESTClient
from hypothesis import given
from hypothesis import strategies as st

from ringfence.connectors.api import ConnectorError, DataException, RetriableError, SourceRecord, UnreadableRecord
from ringfence.connectors.builtin.dlt_source.reading import (
    Reading,
    State,
    convert_row,
    describe_unreadable,
    encode_rows,
    read_unreadable,
)
from ringfence.connectors.builtin.dlt_source.rest_client import PageWatch, WatchfulClient
from ringfence.connectors.builtin.dlt_source.task import DltSourceTask
from ringfence.connectors.sdk.unsupported_values import Handling
from tests.connectors.fakes import FakeOffsets
from tests.support.dlt_runs import start
from tests.support.loopback_api import Answer
from tests.support.scripted_api import ScriptedApi

pytestmark = pytest.mark.usefixtures("loopback_egress")

HUGE = 123456789012345678901234567890
BY_CURSOR = {"cursor_path": "u", "initial_value": 0}
BY_NUMBER = {"type": "page_number", "total_path": None, "stop_after_empty_page": True}
BY_LINK = {"type": "json_link", "next_url_path": "next"}
PYTHONS_WORDS = ("Error", "Exception", "Expecting", "pipe", "generator", "<class")


def body(text: str | bytes, kind: str = "application/json", status: int = 200) -> Callable[[str], Answer]:
    content = text.encode() if isinstance(text, str) else text
    return lambda _path: Answer(content, kind, status)


def configure(url: str, paginator: object = "single_page", **more: Any) -> dict[str, str]:
    endpoint = {"path": "rows", "data_selector": "data", "paginator": paginator, "params": {"key": "s3cret"}}
    if incremental := more.pop("incremental", None):
        endpoint["incremental"] = incremental
    resource = {"name": "rows", "primary_key": "id", "endpoint": endpoint}
    described = json.dumps({"client": {"base_url": url}, "resources": [resource]})
    settings = {key.replace("_", "."): value for key, value in more.items()}
    return {"rest.config": described, "topic.prefix": "p.", "poll.interval.ms": "100", **settings}


def read(task: DltSourceTask, seconds: float = 20) -> list[SourceRecord]:
    """The records of the next batch that has any."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if records := task.poll():
            return [*records]
    raise AssertionError("nothing arrived")


def read_all(task: DltSourceTask, polls: int = 100) -> list[SourceRecord]:
    """The records of so many polls."""
    return [record for _ in range(polls) for record in task.poll() or ()]


def read_once(answer: Callable[[str], Answer], paginator: object = "single_page", **more: Any) -> list[SourceRecord]:
    with ScriptedApi(answer) as api:
        task = start(configure(api.url, paginator, **more), FakeOffsets())
        try:
            return read(task)
        finally:
            task.stop()


def fail(answer: Callable[[str], Answer], paginator: object = "single_page", **more: Any) -> tuple[str, int]:
    """The message that the task ends with, and how many requests there were."""
    with ScriptedApi(answer) as api:
        task = start(configure(api.url, paginator, **more), FakeOffsets())
        try:
            with pytest.raises(ConnectorError) as error:
                read(task)
            assert not isinstance(error.value, DataException | RetriableError)
            assert api.url in str(error.value)
            return str(error.value), len(api.requests)
        finally:
            task.stop()


def values_of(records: list[SourceRecord]) -> list[object]:
    return [record.value for record in records if not isinstance(record, UnreadableRecord)]


def unreadable(records: list[SourceRecord]) -> list[UnreadableRecord]:
    return [record for record in records if isinstance(record, UnreadableRecord)]


ODD_ROWS = [
    (f'{{"id": 2, "n": {HUGE}}}', "n", "an integer of more than 64 bits"),
    (f'{{"id": 2, "n": {"9" * 5000}}}', "n", "an integer of more than 64 bits"),
    ('{"id": 2, "n": {"a": [1, 1e999]}}', "n.a[1]", "beyond the range of a double"),
    (r'{"id": 2, "n": "\ud800"}', "n", "a lone surrogate"),
    (r'{"id": 2, "\ud800": 1}', "", "the name of a field has a lone surrogate"),
]


@pytest.mark.parametrize(("row", "column", "reason"), ODD_ROWS, ids=["huge", "very-huge", "double", "text", "name"])
def test_a_value_that_no_record_can_hold_refuses_its_row_alone(row: str, column: str, reason: str) -> None:
    records = read_once(body(f'{{"data": [{{"id": 1, "n": 5}}, {row}, {{"id": 3, "n": 7}}]}}'))
    assert values_of(records) == [{"id": 1, "n": 5}, {"id": 3, "n": 7}]
    (bad,) = unreadable(records)
    error = bad.error
    assert isinstance(error, DataException)
    assert (error.column, error.row) == (column, "id=2")
    assert reason in str(error)
    assert "GET http://127.0.0.1:" in error.where
    assert "s3cret" not in str(error)
    assert str(HUGE) not in str(error), "the message shows no data"
    assert error.remedy
    assert bad.source_offset == records[0].source_offset
    assert json.loads(str(bad.value))["id"] == 2
    assert bad.key == "2"


@pytest.mark.parametrize(
    ("mode", "huge", "large", "text"),
    [("null", None, None, None), ("text", str(HUGE), "inf", "\\ud800")],
)
def test_a_setting_chooses_null_or_text(mode: str, huge: object, large: object, text: object) -> None:
    row = f'{{"id": 1, "a": {HUGE}, "b": 1e999, "c": "\\ud800", "d": 18446744073709551615, "e": 0.5}}'
    (record,) = read_once(body(f'{{"data": [{row}]}}'), unsupported_value_handling_mode=mode)
    assert record.value == {"id": 1, "a": huge, "b": large, "c": text, "d": 2**64 - 1, "e": 0.5}


def test_nan_and_infinities_are_doubles() -> None:
    """JSON does not have them, but Python's servers write them, and Kafka Connect's doubles do."""
    records = read_once(body('{"data": [{"id": 1, "n": NaN}, {"id": 2, "n": -Infinity}, {"id": 3, "n": [Infinity]}]}'))
    first, second, third = (record.value for record in records)
    assert math.isnan(first["n"])  # type: ignore[index]
    assert (second, third) == ({"id": 2, "n": -math.inf}, {"id": 3, "n": [math.inf]})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (body(""), "an empty body"),
        (body(" \n"), "an empty body"),
        (body("<html><body>s3cret maintenance</body></html>", "text/html"), "an HTML page"),
        (body("<!DOCTYPE html><p>", "application/json"), "an HTML page"),
        (body('{"data": [{"id": 1'), "text that is not JSON (line 1, column 19)"),
        (body("[" * 100_000), "nested too deeply"),
        (body("{}", "application/json; charset=klingon"), "the unknown encoding klingon"),
    ],
    ids=["empty", "blank", "html", "html-as-json", "cut", "deep", "encoding"],
)
def test_a_response_that_is_not_json(answer: Callable[[str], Answer], words: str) -> None:
    message, requests = fail(answer)
    assert words in message
    assert "GET http" in message
    assert "status 200" in message
    assert "Check the path" in message
    assert "s3cret" not in message
    assert not any(word in message for word in PYTHONS_WORDS)
    assert requests == 1


@pytest.mark.parametrize(
    "answer",
    [body("", status=204), body('{"data": []}'), body('{"data": null}')],
    ids=["no-content", "empty-page", "null"],
)
def test_no_rows_are_no_error(answer: Callable[[str], Answer]) -> None:
    with ScriptedApi(answer) as api:
        task = start(configure(api.url, BY_NUMBER), FakeOffsets())
        until = time.monotonic() + 20
        while len(api.requests) < 3:
            assert time.monotonic() < until, "it is not read again"
            assert not [record for record in task.poll() or () if record.topic]
        api.answer = body('{"data": []}')
        task.stop()


CURSORS = [
    ('{"id": 2, "u": null}', "the cursor has no value", "on_cursor_value_missing"),
    ('{"id": 2}', "the cursor has no value", "on_cursor_value_missing"),
    ('{"id": 2, "u": "x"}', "the cursor is text, and that of other rows is a number", "another cursor"),
    ('{"id": 2, "u": NaN}', "the cursor is no finite number", "another cursor"),
    (f'{{"id": 2, "u": {HUGE}}}', "an integer of more than 64 bits", "unsupported.value.handling.mode"),
]


@pytest.mark.parametrize(("row", "reason", "remedy"), CURSORS, ids=["null", "missing", "text", "nan", "huge"])
def test_a_row_whose_cursor_has_no_place_in_the_order(row: str, reason: str, remedy: str) -> None:
    """The others are read, and so are those that come later; it is not reported again with each reading."""
    with ScriptedApi(body(f'{{"data": [{{"id": 1, "u": 3}}, {row}, {{"id": 3, "u": 4}}]}}')) as api:
        task = start(configure(api.url, incremental=BY_CURSOR), FakeOffsets())
        records = read(task)
        assert values_of(records) == [{"id": 1, "u": 3}, {"id": 3, "u": 4}]
        (bad,) = unreadable(records)
        assert isinstance(bad.error, DataException)
        assert bad.error.column == "u"
        assert reason in str(bad.error)
        assert remedy in str(bad.error)
        api.answer = body(f'{{"data": [{row}, {{"id": 4, "u": 5}}]}}')
        records = read(task)
        assert (values_of(records), unreadable(records)) == ([{"id": 4, "u": 5}], [])
        task.stop()


@pytest.mark.parametrize(
    "cursor",
    [
        lambda day: datetime(2026, 1, day, tzinfo=UTC),
        lambda day: date(2026, 1, day),
        lambda day: Decimal(day) / 3,
        lambda day: day if day % 2 else day + 0.5,
    ],
    ids=["time", "date", "decimal", "numbers"],
)
def test_cursors_of_any_type_go_on_from_the_state(cursor: Callable[[int], object]) -> None:
    """dlt's state keeps their types, and a Decimal is a number as an integer is."""

    def read_days(days: range, state: State | None) -> tuple[list[Any], State]:
        rows = iter([[{"day": day, "at": cursor(day)} for day in days]])
        resource = dlt.resource(rows, name="days").apply_hints(incremental=dlt.sources.incremental("at"))
        reading, found, newest = Reading(resource, state), [], state or {}
        while (page := reading.take(20)) is not None:
            found += json.loads(page.rows)
            newest = page.state
        return [row.get("day", row) for row in found], newest

    first, state = read_days(range(1, 4), None)
    second, _ = read_days(range(2, 6), json.loads(json.dumps(state)))
    assert (first, second) == ([1, 2, 3], [4, 5])


def test_an_initial_value_of_another_type_fails_the_task() -> None:
    """Not row by row: with errors.tolerance=all, all of them would be skipped."""
    with ScriptedApi(body('{"data": [{"id": 1, "u": "2026-01-01"}]}')) as api:
        task = start(configure(api.url, incremental=BY_CURSOR), FakeOffsets())
        with pytest.raises(ConnectorError, match=r"cursor u .* initial_value .* Correct rest\.config"):
            read(task)
        task.stop()


@pytest.mark.parametrize(("choice", "rows"), [("exclude", [1, 3]), ("include", [1, 2, 3])])
def test_dlts_own_choice_for_missing_cursors_is_kept(choice: str, rows: list[int]) -> None:
    incremental = {**BY_CURSOR, "on_cursor_value_missing": choice}
    answer = body('{"data": [{"id": 1, "u": 3}, {"id": 2, "u": null}, {"id": 3, "u": 4}]}')
    assert [value["id"] for value in values_of(read_once(answer, incremental=incremental))] == rows  # type: ignore[index]


def link(to: Callable[[str], object]) -> Callable[[str], Answer]:
    """A page with one row, whose number is the path's, and a next page."""
    return lambda path: Answer(json.dumps({"data": [{"id": urlsplit(path).path}], "next": to(path)}).encode())


def page_of(path: str) -> int:
    return int(parse_qs(urlsplit(path).query)["page"][0])


LOOPS: list[tuple[str, Callable[[str], Answer], object, int, str]] = [
    ("to-itself", link(lambda path: path), BY_LINK, 2, "correct the paginator"),
    ("of-two", link(lambda path: "/a" if urlsplit(path).path == "/b" else "/b"), BY_LINK, 4, "correct the paginator"),
    (
        "same-cursor",
        lambda path: Answer(json.dumps({"data": [{"id": path}], "next": "abc"}).encode()),
        {"type": "cursor", "cursor_path": "next", "cursor_param": "c"},
        3,
        "correct the paginator",
    ),
    ("page-number", body('{"data": [{"id": 1}, {"id": 2}]}'), BY_NUMBER, 2, "maximum_page"),
    (
        "last-page-again",
        lambda path: Answer(json.dumps({"data": [{"id": min(page_of(path), 3)}]}).encode()),
        BY_NUMBER,
        5,
        "maximum_page",
    ),
    (
        "offset",
        body('{"data": [{"id": 1}]}'),
        {"type": "offset", "limit": 1, "total_path": None, "stop_after_empty_page": True},
        2,
        "stop_after_empty_page",
    ),
    (
        "empty-pages",
        body('{"data": [], "total": 1000000}'),
        {"type": "page_number", "total_path": "total", "stop_after_empty_page": False},
        2,
        "stop_after_empty_page",
    ),
]


@pytest.mark.parametrize(
    ("answer", "paginator", "requests", "remedy"),
    [loop[1:] for loop in LOOPS],
    ids=[loop[0] for loop in LOOPS],
)
@pytest.mark.parametrize("checkpoint", ["pass", "page"])
def test_pages_without_an_end_are_refused_at_the_first_repetition(
    answer: Callable[[str], Answer], paginator: object, requests: int, remedy: str, checkpoint: str
) -> None:
    with ScriptedApi(answer) as api:
        task = start(configure(api.url, paginator, checkpoint=checkpoint), FakeOffsets())
        with pytest.raises(ConnectorError, match="do not end") as error:
            read_all(task)
        task.stop()
        assert remedy in str(error.value)
        assert api.url in str(error.value)
        assert "s3cret" not in str(error.value)
        assert len(api.requests) == requests


def test_pages_that_look_alike_are_no_loop() -> None:
    """Single rows may be equal, empty pages may lie between others, and a child is requested for each parent."""
    pages = [[{"v": 1}], [{"v": 2}], [{"v": 1}], [], [], [{"v": 3}]]

    def answer(path: str) -> Answer:
        number = int(parse_qs(urlsplit(path).query).get("c", ["0"])[0])
        return Answer(json.dumps({"data": pages[number], "next": str(number + 1) if number < 5 else None}).encode())

    paginator = {"type": "cursor", "cursor_path": "next", "cursor_param": "c"}
    with ScriptedApi(answer) as api:
        task = start(configure(api.url, paginator), FakeOffsets())
        found: list[object] = []
        while len(found) < 4:
            found += values_of(read(task))
        task.stop()
    assert found == [{"v": 1}, {"v": 2}, {"v": 1}, {"v": 3}]


def test_children_of_parents_that_share_them_are_read_for_each() -> None:
    parents = {"name": "parents", "endpoint": {"path": "parents", "data_selector": "data", "paginator": "single_page"}}
    path = "children/{resources.parents.child}"
    child = {"name": "children", "endpoint": {"path": path, "data_selector": "data", "paginator": "single_page"}}

    def answer(path: str) -> Answer:
        rows = [{"child": 7}, {"child": 7}] if path.startswith("/parents") else [{"a": 1}, {"a": 2}]
        return Answer(json.dumps({"data": rows}).encode())

    with ScriptedApi(answer) as api:
        described = json.dumps({"client": {"base_url": api.url}, "resources": [parents, child]})
        config = {"rest.config": described, "topic.prefix": "p.", "dlt.resources": "children"}
        task = start(config, FakeOffsets())
        found: list[object] = []
        while len(found) < 4:
            found += values_of(read(task))
        task.stop()
    assert found == [{"a": 1}, {"a": 2}] * 2


def test_a_status_says_what_to_do() -> None:
    for status, words in ((404, "Check base_url and the path"), (403, "Check rest.auth"), (400, "Check the request")):
        message, _ = fail(body("{}", status=status))
        assert f"status {status}" in message
        assert words in message
        assert not any(word in message for word in PYTHONS_WORDS)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | st.text(st.characters(), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=3), _VALUES, max_size=4), st.sampled_from(list(Handling)))
def test_any_row_becomes_json_or_has_a_place(row: dict[str, object], handling: Handling) -> None:
    converted, error = try_to_convert(row, handling)
    if error is not None:
        assert handling is Handling.FAIL or "name of a field" in error.reason
        (item,) = json.loads(encode_rows([describe_unreadable(row, {}, error)]))
        again = read_unreadable(item)
        assert again is not None
        assert str(again[0]) == str(error).encode("utf-8", "backslashreplace").decode()
        return
    (value,) = json.loads(encode_rows([converted]))
    json.dumps(value, ensure_ascii=False).encode()
    assert handling is not Handling.FAIL or json.dumps(value, sort_keys=True) == json.dumps(row, sort_keys=True)


def try_to_convert(row: object, handling: Handling) -> tuple[object, DataException | None]:
    try:
        return convert_row(row, handling), None
    except DataException as error:
        return None, error


def test_dlts_client_is_the_watchful_one() -> None:
    """The canary of the private parts: rest_api takes its client from its own module, and a request goes this way."""
    assert rest_api.RESTClient is WatchfulClient  # type: ignore[attr-defined]
    assert issubclass(WatchfulClient, RESTClient)
    assert RESTClient._send_request is not WatchfulClient._send_request
    assert PageWatch is not None
