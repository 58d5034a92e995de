"""DltSource against a real HTTP server: what is read, refused, hidden, and where a task goes on."""

import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ringfence.connectors.api import ConnectorError, ExactlyOnceSupport, RetriableError, SourceRecord
from ringfence.connectors.builtin.dlt_source.connector import DltSourceConnector
from ringfence.connectors.builtin.dlt_source.rest_config import redact
from ringfence.connectors.builtin.dlt_source.task import DltSourceTask
from ringfence.fencing.clock import Deadline
from tests.connectors.fakes import FakeOffsets
from tests.support.dlt_runs import start
from tests.support.loopback_api import Answer, Request
from tests.support.orders_api import OrdersApi

pytestmark = pytest.mark.usefixtures("loopback_egress")

WEATHER = """
import dlt

LAST = [2]

@dlt.source
def weather(city, key=""):
    if key == "wrong":
        raise ValueError(f"the key {key} is refused")

    @dlt.resource(primary_key="hour")
    def hours(hour=dlt.sources.incremental("hour")):
        dlt.current.source_state()["seen"] = LAST[0]
        yield [{"hour": n, "city": city, "signed": bool(key)} for n in range(LAST[0])]

    return hours

def plain():
    rows = iter([[{"id": n} for n in range(LAST[0])]])
    return dlt.resource(rows, name="plain").apply_hints(incremental=dlt.sources.incremental("id"))
"""
BY_PAGE = {"checkpoint": "page"}
WHOLE = {"transaction.boundary": "connector"}


@pytest.fixture
def api() -> Iterator[OrdersApi]:
    with OrdersApi() as made:
        yield made


def configure(api: OrdersApi, config: str | None = None, **more: str) -> dict[str, str]:
    return {"rest.config": config or api.config(), "topic.prefix": "shop.", "poll.interval.ms": "100", **more}


def read(task: DltSourceTask, batches: int) -> list[SourceRecord]:
    """So many batches with records."""
    found: list[SourceRecord] = []
    deadline = Deadline.after(30)
    while batches:
        assert not deadline.expired, f"{len(found)} records after 30 seconds"
        if records := task.poll():
            found += [one for one in records if one.topic]
            batches -= 1
    return found


def ids(records: list[SourceRecord]) -> list[int]:
    return [record.value["id"] for record in records]  # type: ignore[index]


def cut(api: OrdersApi, pages: int, **more: str) -> list[int]:
    """What is read up to a page, and then by another task from the offset behind it."""
    config = configure(api, api.config(row_order="asc"), **BY_PAGE, **more)
    offsets = FakeOffsets()
    task = start(config, offsets)
    first = read(task, pages)
    task.stop()
    offsets.put(first[-1].source_partition, json.loads(json.dumps(first[-1].source_offset)))
    again = start(config, offsets)
    rest: list[SourceRecord] = []
    while len(first) + len(rest) < len(api.rows):
        rest += read(again, 1)
    again.stop()
    return ids(first + rest)


@pytest.fixture
def weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An installed package with two entry points; how many rows they give."""
    (tmp_path / "weather_source.py").write_text(WEATHER)
    info = tmp_path / "weather_source-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather-source\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[ringfence.dlt_sources]\nweather = weather_source:weather\nplain-rows = weather_source:plain\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import weather_source  # type: ignore[import-not-found]

    yield weather_source.LAST
    del sys.modules["weather_source"]


def read_on(config: dict[str, str], offsets: FakeOffsets) -> list[SourceRecord]:
    """One batch with records, by a new task; its offset is committed."""
    task = start(config, offsets)
    found = read(task, 1)
    task.stop()
    offsets.put(found[-1].source_partition, json.loads(json.dumps(found[-1].source_offset)))
    return found


def test_rows_keep_their_form_and_have_the_primary_key_as_key(api: OrdersApi) -> None:
    api.add(3)
    record = read(start(configure(api, **WHOLE), FakeOffsets()), 1)[1]
    assert (record.topic, record.key, record.value) == ("shop.orders", 1, api.rows[1])
    assert record.source_partition == {"source": "rest_api", "resource": "orders"}


def test_a_task_goes_on_behind_a_page(api: OrdersApi) -> None:
    api.add(230)
    assert cut(api, 3) == list(range(230)), "a row is missing, or there twice"


def test_pages_that_are_out_of_order_fail_the_task(api: OrdersApi) -> None:
    api.add(230)
    random.Random(1).shuffle(api.rows)
    with pytest.raises(ConnectorError, match=r"does not return orders in the order of updated_at.*checkpoint=pass"):
        cut(api, 3)


def test_a_pass_over_unsorted_rows_is_one_transaction(api: OrdersApi) -> None:
    api.add(120)
    random.Random(1).shuffle(api.rows)
    offsets = FakeOffsets()
    task = start(configure(api, **WHOLE), offsets)
    first = read(task, 3)
    commits: Any = task.context.transaction_context
    assert (sorted(ids(first)), commits.count) == (list(range(120)), 1)
    offsets.put(first[-1].source_partition, json.loads(json.dumps(first[-1].source_offset)))
    task.stop()
    api.add(5)
    again = start(configure(api, **WHOLE), offsets)
    assert ids(read(again, 1)) == list(range(120, 125)), "the rows at the boundary came again"
    again.stop()


def test_a_source_of_a_package_runs_and_goes_on(weather: list[int]) -> None:
    config = {"dlt.source": "weather", "topic.prefix": "w.", "poll.interval.ms": "100", **WHOLE}
    config |= {"dlt.config": '{"city": "Bern"}', "dlt.secrets": '{"key": "t0psecret"}'}
    required = {**config, "exactly.once.support": "required"}
    assert DltSourceConnector().validate(required) == {}
    offsets = FakeOffsets()
    first = read_on(config, offsets)
    assert [(record.topic, record.key) for record in first] == [("w.hours", 0), ("w.hours", 1)]
    assert first[0].value == {"hour": 0, "city": "Bern", "signed": True}
    weather[0] = 4
    assert [record.key for record in read_on(config, offsets)] == [2, 3], "the state was not found again"
    wrong = {**config, "dlt.secrets": '{"key": "wrong"}'}
    told = DltSourceConnector().validate(wrong)["dlt.config"][0]
    assert "the key [hidden] is refused" in told


def test_state_has_the_same_name_in_each_life(weather: list[int], api: OrdersApi) -> None:
    """For a resource that is no function dlt makes up another name each time."""
    package = {"dlt.source": "plain-rows", "topic.prefix": "w.", "poll.interval.ms": "100", **WHOLE}
    offsets = FakeOffsets()
    first = read_on(package, offsets)
    weather[0] = 3
    again = read_on(package, offsets)
    assert [record.value for record in first + again] == [{"id": n} for n in range(3)]
    api.add(1)
    for record in (again[-1], read_on(configure(api, **WHOLE), offsets)[-1]):
        state: Any = record.source_offset
        assert list(state["state"]["sources"]) == ["source"], "offsets that are committed would not be found again"


def test_rows_of_a_dependent_resource_come_once_for_each_parent() -> None:
    class Lines(OrdersApi):
        def respond(self, request: Request) -> Answer:
            if not request.path.endswith("/lines"):
                return super().respond(request)
            order = int(request.path.split("/")[2])
            return Answer(json.dumps([{"order": order, "line": n} for n in range(2)]).encode())

    with Lines() as api:
        described = json.loads(api.config())
        described["resources"].append(
            {
                "name": "lines",
                "primary_key": ["order", "line"],
                "endpoint": {"path": "orders/{resources.orders.id}/lines", "paginator": "single_page"},
            }
        )
        config = configure(api, json.dumps(described), **WHOLE, **{"dlt.resources": "lines"})
        assert DltSourceConnector().validate({**config, "exactly.once.support": "required"}) == {}
        by_page = DltSourceConnector().validate({**config, **BY_PAGE})
        assert "Pages of lines" in by_page["checkpoint"][0]
        offsets = FakeOffsets()
        for first in (0, 3):
            api.add(3)
            task = start(config, offsets)
            found = read(task, 3)
            task.stop()
            assert {record.topic for record in found} == {"shop.lines"}
            assert [record.key for record in found] == [
                {"order": order, "line": n} for order in range(first, first + 3) for n in range(2)
            ]
            offsets.put(found[-1].source_partition, json.loads(json.dumps(found[-1].source_offset)))


def test_an_api_in_trouble_is_asked_again(api: OrdersApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    api.add(10)
    api.answers = [503, 429]
    assert len(read(start(configure(api, **WHOLE), FakeOffsets()), 1)) == 10
    api.answers = [500] * 20
    with pytest.raises(RetriableError, match="500"):
        read(start(configure(api, **WHOLE), FakeOffsets()), 1)
    api.answers = [404]
    with pytest.raises(ConnectorError, match="404"):
        read(start(configure(api, **WHOLE), FakeOffsets()), 1)


def test_an_api_that_has_not_answered_is_told_from_one_with_nothing_new(api: OrdersApi) -> None:
    api.add(3)
    task = start(configure(api, **WHOLE), FakeOffsets())
    answers: list[bool] = []
    while True not in answers and len(answers) < 100:
        task.poll()
        answers.append(task.has_answered)
    task.stop()
    assert not answers[0], "the reading has not ended"
    assert answers[-1]


def test_a_wrong_key_is_an_error_without_the_key() -> None:
    with OrdersApi(token="right") as api:
        sign_in = {"rest.auth": '{"type": "api_key", "location": "query", "name": "k", "api_key": "t0psecret"}'}
        with pytest.raises(ConnectorError) as found:
            read(start(configure(api, **WHOLE, **sign_in), FakeOffsets()), 1)
        assert "401" in str(found.value)
        assert "t0psecret" not in str(found.value)
        assert any("t0psecret" in path for path in api.requests)
        api.add(2)
        sign_in = {"rest.auth": '{"type": "bearer", "token": "right"}'}
        assert len(read(start(configure(api, **WHOLE, **sign_in), FakeOffsets()), 1)) == 2


def test_errors_hide_secrets_wherever_they_stand(api: OrdersApi) -> None:
    sign_in = {"rest.auth": '{"type": "bearer", "token": "t0psecret"}', "dlt.secrets": '{"deep": ["s3cond"]}'}
    parsed = DltSourceConnector.config_def().parse(configure(api, **sign_in))
    told = redact(parsed, ValueError("https://h/p?token=query t0psecret s3cond"))
    assert told == "ValueError: https://h/p?… [hidden] [hidden]"


def test_what_is_left_out_is_not_taken_from_the_environment(api: OrdersApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "CREDENTIALS__TOKEN", "SOURCES__TOKEN", "SOURCES__REST_API__TOKEN"):
        monkeypatch.setenv(name, "of-the-worker")
    with OrdersApi(token="of-the-worker") as closed:
        with pytest.raises(ConnectorError):
            read(start(configure(closed, **WHOLE, **{"rest.auth": '{"type": "bearer"}'}), FakeOffsets()), 1)
        assert {*closed.statuses} <= {401}, "it was let in"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("orders/{incremental.__init__.__globals__}", "placeholder"),
        ("orders/{resources.orders.__class__.x}", "placeholder"),
        ("orders/{incremental.start_value!r}", "placeholder"),
        ("orders/{{x}}/{incremental[0]}", "placeholder"),
    ],
)
def test_placeholders_reach_values_only(api: OrdersApi, path: str, words: str) -> None:
    config = json.dumps({"client": {"base_url": api.url}, "resources": [{"name": "a", "endpoint": {"path": path}}]})
    assert words in DltSourceConnector().validate(configure(api, config, **WHOLE))["rest.config"][0]


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ({"auth": {"type": "bearer", "token": "x"}}, "rest.auth"),
        ({"headers": {"X-Api-Key": "x"}}, "rest.auth"),
        ({"base_url": "http://me:pw@127.0.0.1/"}, "rest.auth"),
        ({"base_url": "http://169.254.169.254/"}, "not allowed"),
        ({"base_url": "file:///etc/passwd"}, "https://"),
    ],
)
def test_secrets_in_the_open_and_closed_addresses_are_refused(
    api: OrdersApi, client: dict[str, Any], words: str
) -> None:
    config = json.dumps({"client": {"base_url": api.url, **client}, "resources": ["orders"]})
    errors = DltSourceConnector().validate(configure(api, config, **WHOLE))
    assert words in next(iter(errors.values()))[0]


def test_a_next_page_elsewhere_is_judged_too(api: OrdersApi) -> None:
    class Elsewhere(OrdersApi):
        def respond(self, request: Request) -> Answer:
            return Answer(json.dumps({"data": [{"id": 1}], "next": "http://169.254.169.254/latest"}).encode())

    with Elsewhere() as led:
        endpoint = {"path": "x", "data_selector": "data", "paginator": {"type": "json_link", "next_url_path": "next"}}
        config = json.dumps({"client": {"base_url": led.url}, "resources": [{"name": "x", "endpoint": endpoint}]})
        with pytest.raises(ConnectorError, match=r"not allowed by the worker's egress\.allow"):
            read(start(configure(led, config, **WHOLE), FakeOffsets()), 2)


@pytest.mark.parametrize(
    ("incremental", "words"),
    [
        ({"lag": 1}, "lag"),
        ({"range_start": "open"}, "missed"),
        ({"end_value": "2027"}, "end_value"),
        ({"on_cursor_value_missing": "include"}, "each time"),
        ({"primary_key": []}, "primary_key"),
    ],
)
def test_what_an_incremental_cannot_promise_is_refused(api: OrdersApi, incremental: Any, words: str) -> None:
    connector = DltSourceConnector()
    config = configure(api, api.config(**incremental), **WHOLE)
    assert connector.exactly_once_support(config) is ExactlyOnceSupport.UNSUPPORTED
    assert connector.validate(config) == {}
    assert words in connector.validate({**config, "exactly.once.support": "required"})["dlt.resources"][0]


def test_promises_and_remedies(api: OrdersApi) -> None:
    connector = DltSourceConnector()
    config = configure(api, **WHOLE)
    assert connector.exactly_once_support(config) is ExactlyOnceSupport.SUPPORTED
    assert connector.validate({**config, "exactly.once.support": "required"}) == {}
    assert [choice.description for choice in connector.list_choices(config)["dlt.resources"]] == ["exactly once"]
    wrong = {**config, "rest.auth": '{"type": "x"}'}
    assert connector.exactly_once_support(wrong) is ExactlyOnceSupport.SUPPORTED, "hides what is wrong"
    assert "oauth2" in connector.validate(wrong)["rest.auth"][0]
    plain = configure(api, json.dumps({"client": {"base_url": api.url}, "resources": ["orders"]}), **WHOLE)
    assert connector.exactly_once_support(plain) is ExactlyOnceSupport.UNSUPPORTED
    assert "at least once" in connector.list_choices(plain)["dlt.resources"][0].description
    assert connector.validate(configure(api)) == {}
    by_poll = configure(api, **{"transaction.boundary": "poll"})
    assert "Remove it" in connector.validate(by_poll)["transaction.boundary"][0]
    assert "row_order=asc" in connector.validate(configure(api, **BY_PAGE))["checkpoint"][0]
    assert connector.validate(configure(api, api.config(row_order="asc"), **BY_PAGE)) == {}
    assert "Existing resources: orders" in connector.validate({**config, "dlt.resources": "x"})["dlt.resources"][0]
    assert "entry point" in connector.validate({**config, "dlt.source": "os:system"})["dlt.source"][0]


def changing(api: OrdersApi, key: object = "id", **more: str) -> dict[str, str]:
    """A resource without an incremental."""
    endpoint = json.loads(api.config())["resources"][0]["endpoint"]
    del endpoint["incremental"], endpoint["params"]
    resource = {"name": "orders", "endpoint": endpoint, **({"primary_key": key} if key else {})}
    described = json.dumps({"client": {"base_url": api.url}, "resources": [resource]})
    return configure(api, described, **WHOLE, **{"changes.only": "true"}, **more)


def read_whole(config: dict[str, str], offsets: FakeOffsets) -> list[Any]:
    """What one reading by a new task gives; all of its offsets are committed."""
    task = start(config, offsets)
    found: list[SourceRecord] = []
    deadline = Deadline.after(30)
    while not task._due["orders"]:
        assert not deadline.expired
        found += task.poll() or []
    task.stop()
    commits: Any = task.context.transaction_context
    assert commits.count == bool(found), "one transaction a reading"
    for record in found:
        offset = record.source_offset
        offsets.put(record.source_partition, None if offset is None else json.loads(json.dumps(offset)))
    return [record.value for record in found if record.topic]


def test_only_rows_that_changed_come_of_a_whole_reading(api: OrdersApi) -> None:
    api.add(120)
    config, offsets = changing(api), FakeOffsets()
    assert DltSourceConnector().validate({**config, "exactly.once.support": "required"}) == {}
    assert DltSourceConnector().exactly_once_support(config) is ExactlyOnceSupport.SUPPORTED
    assert read_whole(config, offsets) == api.rows
    assert read_whole(config, offsets) == []
    api.rows[7]["lines"] = []
    gone = api.rows.pop(50)
    api.add(1)
    api.rows[-1]["id"] = 500
    assert read_whole(config, offsets) == [api.rows[7], api.rows[-1]]
    api.rows.append(gone)
    assert read_whole(config, offsets) == [gone], "a row that returns is a new one"
    api.rows.clear()
    assert read_whole(config, offsets) == []
    assert [partition for partition, _ in offsets.known if "bucket" in partition] == []


def test_rows_that_cannot_be_compared_are_refused(api: OrdersApi) -> None:
    api.add(3)
    keyless = changing(api, None)
    assert (
        "orders cannot be compared: it has no primary_key" in DltSourceConnector().validate(keyless)["changes.only"][0]
    )
    assert DltSourceConnector().exactly_once_support(keyless) is ExactlyOnceSupport.UNSUPPORTED
    with pytest.raises(ConnectorError, match="no value for the primary key missing"):
        read_whole(changing(api, "missing"), FakeOffsets())
    with pytest.raises(ConnectorError, match="two rows of one reading have the primary key"):
        read_whole(changing(api, "updated_at"), FakeOffsets())
    incremental = configure(api, **WHOLE, **{"changes.only": "true"})
    assert DltSourceConnector().validate(incremental) == {}
    assert len(read(start(incremental, FakeOffsets()), 1)) == 3


def test_digests_by_hand_are_checked() -> None:
    alter = DltSourceConnector().alter_offsets
    bucket = {"source": "rest_api", "resource": "orders", "bucket": 1}
    assert alter({}, [(bucket, None), (bucket, {"rows": {}})])
    with pytest.raises(ConnectorError, match="under 'rows'"):
        alter({}, [(bucket, {"state": {}})])


class OAuthApi(OrdersApi):
    """Wants access tokens, each for a second, which it gives for the right secret."""

    def __init__(self) -> None:
        super().__init__(page=4)
        self.issued: list[float] = []
        self.token_url = f"{self.url}token"

    def respond(self, request: Request) -> Answer:
        if request.method == "POST":
            return self._issue(request.form)
        newest = f"Bearer token-{len(self.issued)}"
        if request.authorization != newest or time.monotonic() - self.issued[-1] > 10:
            return Answer(b"{}", status=401)
        time.sleep(0.2)  # so that a reading takes longer than a token holds
        return super().respond(request)

    def _issue(self, form: dict[str, list[str]]) -> Answer:
        if form["client_secret"] != ["t0psecret"] or form["grant_type"] != ["client_credentials"]:
            return Answer(b'{"error": "no"}', status=401)
        self.issued.append(time.monotonic())
        return Answer(json.dumps({"access_token": f"token-{len(self.issued)}", "expires_in": 1}).encode())


def test_tokens_of_oauth2_are_renewed_within_a_reading() -> None:
    with OAuthApi() as api:
        api.add(40)
        sign_in = {"type": "oauth2_client_credentials", "access_token_url": api.token_url, "client_id": "reader"}
        right = configure(api, **WHOLE, **{"rest.auth": json.dumps({**sign_in, "client_secret": "t0psecret"})})
        assert DltSourceConnector().validate(right) == {}
        assert ids(read(start(right, FakeOffsets()), 10)) == list(range(40))
        assert len(api.issued) >= 2
        wrong = configure(api, **WHOLE, **{"rest.auth": json.dumps({**sign_in, "client_secret": "wr0ng-secret"})})
        with pytest.raises(ConnectorError, match="401") as error:
            read(start(wrong, FakeOffsets()), 1)
        assert "wr0ng-secret" not in str(error.value)
        # The address of tokens is judged as all others are.
        elsewhere = json.dumps({**sign_in, "access_token_url": "http://169.254.169.254/", "client_secret": "t0psecret"})
        refused = DltSourceConnector().validate(configure(api, **WHOLE, **{"rest.auth": elsewhere}))
        assert "not allowed" in next(iter(refused.values()))[0]


def poll_for(task: DltSourceTask, seconds: float) -> None:
    deadline = Deadline.after(seconds)
    while not deadline.expired:
        task.poll()


def test_an_api_that_goes_away_is_said_while_the_client_tries_again_by_itself() -> None:
    api = OrdersApi()
    api.add(3)
    port = int(api.url.rstrip("/").rpartition(":")[2])
    task = start(configure(api, **WHOLE), FakeOffsets())
    read(task, 1)
    api.close()
    with pytest.raises(RetriableError, match="the API does not answer"):
        poll_for(task, 5)
    assert (task.has_answered, task.answers_in_part) == (False, False)
    with OrdersApi(port=port) as again:
        again.rows = api.rows
        deadline = Deadline.after(40)
        while not task.has_answered:
            assert not deadline.expired, "the reading has not ended"
            with suppress(RetriableError):
                task.poll()
    task.stop()
