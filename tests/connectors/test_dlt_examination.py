"""A REST API is described by its answer: records, key, pages and cursor are proposed, and so all rows come once."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from ringfence.connectors.api import Examination, SourceRecord
from ringfence.connectors.builtin.dlt_source.connector import DltSourceConnector
from ringfence.connectors.builtin.dlt_source.examination import find_records
from ringfence.fencing.clock import Deadline
from tests.connectors.fakes import FakeOffsets
from tests.support.dlt_runs import start
from tests.support.loopback_api import Answer as Response
from tests.support.loopback_api import LoopbackApi, Request

ROWS = [{"id": n, "item": f"no {n}", "updated_at": f"2026-01-01T00:00:{n:02d}Z"} for n in range(25)]
PAGE = 10
Query = Mapping[str, str]
Answer = tuple[Any, dict[str, str]]
"""A document, and headers."""


def cut(query: Query, first: int, size: int = PAGE) -> list[dict[str, Any]]:
    return [row for row in ROWS if str(row["updated_at"]) >= query.get("since", "")][first : first + size]


def nested(query: Query, _: str) -> Answer:
    return {"meta": {"tags": []}, "result": {"orders": ROWS, "errors": [{"code": 1}]}}, {}


def by_number(query: Query, _: str) -> Answer:
    return {"items": cut(query, (int(query.get("page", 1)) - 1) * PAGE)}, {}


def by_number_from_zero(query: Query, _: str) -> Answer:
    return {"items": cut(query, int(query.get("page", 0)) * PAGE)}, {}


def by_offset(query: Query, _: str) -> Answer:
    return cut(query, int(query.get("skip", 0)), int(query.get("per_page", PAGE))), {}


def by_cursor(query: Query, _: str) -> Answer:
    first = int(query.get("page_token", "p0")[1:])
    more = first + PAGE < len(ROWS)
    return {"data": cut(query, first), "paging": {"next_page_token": f"p{first + PAGE}" if more else None}}, {}


def by_link(query: Query, url: str) -> Answer:
    first = int(query.get("at", 0))
    more = first + PAGE < len(ROWS)
    return {"results": cut(query, first), "next": f"{url}?at={first + PAGE}" if more else None}, {}


def by_header(query: Query, url: str) -> Answer:
    first = int(query.get("at", 0))
    more = first + PAGE < len(ROWS)
    return cut(query, first), {"Link": f'<{url}?at={first + PAGE}>; rel="next"'} if more else {}


def by_time(query: Query, _: str) -> Answer:
    return {"data": cut(query, 0, len(ROWS))}, {}


class Api(LoopbackApi):
    """answer: what a GET of /orders returns. status: another one than 200. token: what it demands."""

    def __init__(self, answer: Callable[[Query, str], Answer]) -> None:
        self.answer, self.status, self.token, self.body = answer, 200, "", b""
        self.queries: list[dict[str, str]] = []
        super().__init__()

    def respond(self, request: Request) -> Response:
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        self.queries.append(query)
        document, more = self.answer(query, f"{self.url}orders")
        allowed = not self.token or self.token in request.headers.values()
        body = self.body or json.dumps(document).encode()
        return Response(body, "", self.status if allowed else 401, tuple(more.items()))


@pytest.fixture
def serve(loopback_egress: None) -> Iterator[Callable[[Callable[[Query, str], Answer]], Api]]:
    served: list[Api] = []

    def make(answer: Callable[[Query, str], Answer]) -> Api:
        served.append(Api(answer))
        return served[-1]

    yield make
    for each in served:
        each.close()


Serve = Callable[[Callable[[Query, str], Answer]], Api]


def examine(api: Api, **more: str) -> Examination:
    examination = DltSourceConnector().examine({"rest.url": f"{api.url}orders", **more})
    assert examination is not None
    return examination


KEYED = {"rest.key": "id", "rest.cursor": "updated_at"}
CURSOR = {**KEYED, "rest.cursor.param": "since", "rest.cursor.start": "1970-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("answer", "proposals"),
    [
        (nested, {**KEYED, "rest.records": "result.orders"}),
        (
            by_number,
            {
                **CURSOR,
                "rest.records": "items",
                "rest.pages": "number",
                "rest.page.param": "page",
                "rest.page.first": "1",
            },
        ),
        (
            by_number_from_zero,
            {
                **CURSOR,
                "rest.records": "items",
                "rest.pages": "number",
                "rest.page.param": "page",
                "rest.page.first": "0",
            },
        ),
        (
            by_offset,
            {
                **CURSOR,
                "rest.pages": "offset",
                "rest.page.param": "skip",
                "rest.page.size": "10",
                "rest.page.size.param": "per_page",
            },
        ),
        (
            by_cursor,
            {
                **CURSOR,
                "rest.records": "data",
                "rest.pages": "cursor",
                "rest.page.param": "page_token",
                "rest.page.next": "paging.next_page_token",
            },
        ),
        (by_link, {**CURSOR, "rest.records": "results", "rest.pages": "link", "rest.page.next": "next"}),
        (by_header, {**CURSOR, "rest.pages": "link-header"}),
        (by_time, {**CURSOR, "rest.records": "data"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_answer_shows_how_a_list_is_read_and_all_its_rows_come_once(
    serve: Serve, answer: Callable[[Query, str], Answer], proposals: dict[str, str]
) -> None:
    api = serve(answer)
    examination = examine(api)
    assert examination.errors == {}
    assert examination.proposals == proposals
    config = {"rest.url": f"{api.url}orders", "topic.prefix": "shop.", "poll.interval.ms": "100", **proposals}
    connector = DltSourceConnector()
    assert connector.validate(config) == {}
    assert connector.explain_guarantee(config) == "", "it is exactly once"
    task = start(config, FakeOffsets())
    records: list[SourceRecord] = []
    deadline = Deadline.after(20)
    try:
        while len(records) < len(ROWS):
            assert not deadline.expired, f"{len(records)} records"
            records += [each for each in task.poll() or () if each.topic]
    finally:
        task.stop()
    assert [cast("dict[str, Any]", each.value)["id"] for each in records] == list(range(len(ROWS)))
    assert {each.topic for each in records} == {"shop.orders"}
    assert [each.key for each in records] == list(range(len(ROWS)))


def test_a_list_without_times_is_compared_as_a_whole(serve: Serve) -> None:
    api = serve(lambda query, url: ([{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}], {}))
    examination = examine(api)
    assert examination.proposals == {"rest.key": "id", "changes.only": "true"}
    assert "no field says when a record was changed" in examination.summary


def test_records_that_change_by_themselves_prove_no_pages(serve: Serve) -> None:
    count = iter(range(1000))
    api = serve(lambda query, url: ([{"id": 1, "seen": next(count)}], {}))
    assert "rest.pages" not in examine(api).proposals


@pytest.mark.parametrize(
    ("status", "setting", "words"),
    [
        (401, "rest.login", "The login is refused by 127.0.0.1"),
        (403, "rest.login", "lacks a permission"),
        (404, "rest.url", "Check the path"),
        (503, "rest.url", "status 503"),
    ],
)
def test_a_refusal_names_its_setting(serve: Serve, status: int, setting: str, words: str) -> None:
    api = serve(by_time)
    api.status = status
    errors = examine(api).errors
    assert list(errors) == [setting]
    assert words in errors[setting][0]


@pytest.mark.parametrize(
    ("login", "header"),
    [
        ({"rest.login": "bearer", "rest.login.secret": "s3cret-4711"}, "Bearer s3cret-4711"),
        ({"rest.login": "api_key", "rest.login.name": "X-Key", "rest.login.secret": "s3cret-4711"}, "s3cret-4711"),
        (
            {"rest.login": "http_basic", "rest.login.name": "ann", "rest.login.secret": "s3cret-4711"},
            "Basic YW5uOnMzY3JldC00NzEx",
        ),
        ({"rest.auth": '{"type": "bearer", "token": "s3cret-4711"}'}, "Bearer s3cret-4711"),
    ],
)
def test_a_login_is_sent_and_never_shown(serve: Serve, login: dict[str, str], header: str) -> None:
    api = serve(by_time)
    api.token = header
    assert examine(api, **login).errors == {}
    assert examine(api).errors
    config = {"rest.url": f"{api.url}orders", "topic.prefix": "shop.", "rest.records": "data", **login}
    assert DltSourceConnector().validate(config) == {}
    task = start(config, FakeOffsets())
    deadline = Deadline.after(20)
    while not (records := task.poll()):
        assert not deadline.expired
    assert records
    task.stop()
    api.body = b"<html>s3cret-4711</html>"
    assert "s3cret" not in str(examine(api, **login).errors)


@pytest.mark.parametrize(
    ("config", "setting", "words"),
    [
        ({}, "rest.url", "Give the address of a list"),
        ({"rest.url": "http://169.254.169.254/latest"}, "rest.url", "not allowed"),
        ({"rest.url": "http://no-such-host.invalid/x"}, "rest.url", "cannot be resolved"),
        ({"rest.url": "http://127.0.0.1:1/x?api_key=abc"}, "rest.url", "visible to all"),
        ({"rest.url": "http://ann:pw@127.0.0.1:1/x"}, "rest.url", "password"),
        ({"rest.url": "http://127.0.0.1:1/x"}, "rest.url", "Nothing listens at 127.0.0.1:1"),
        ({"rest.url": "http://127.0.0.1:1/x", "rest.login": "bearer"}, "rest.login.secret", "needs it"),
    ],
)
def test_what_cannot_be_asked_says_why(serve: Serve, config: dict[str, str], setting: str, words: str) -> None:
    examination = DltSourceConnector().examine(config)
    assert examination is not None
    assert list(examination.errors) == [setting]
    assert words in examination.errors[setting][0]


def test_the_address_and_the_json_exclude_each_other(serve: Serve) -> None:
    api = serve(by_time)
    both = {"rest.url": f"{api.url}orders", "rest.config": "{}", "topic.prefix": "x."}
    assert "not both" in DltSourceConnector().validate(both)["rest.url"][0]
    incomplete = {"rest.url": f"{api.url}orders", "rest.pages": "cursor", "topic.prefix": "x."}
    assert "needs it" in DltSourceConnector().validate(incomplete)["rest.page.next"][0]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ""),
        ({"data": []}, "data"),
        ({"errors": [], "deep": {"items": [{"a": 1}]}}, "deep.items"),
        ({"items": [{"a": 1}], "included": [{"b": 1}, {"b": 2}]}, "items"),
        ({"names": ["a", "b"]}, None),
        ("text", None),
    ],
)
def test_records_are_the_list_of_objects_near_the_top(document: object, path: str | None) -> None:
    assert find_records(document)[0] == path
