"""Pages show every state, take back nothing from secrets, and do what their buttons say."""

import asyncio
import json
import re
import time
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from ringfence.dispatch import Refusal
from ringfence.fencing.ids import ConnectorName, Incarnation, WorkerId
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import State, WorkerRecord
from ringfence.projection.models import Connector, Event, GenerationRow, Task
from ringfence.web.live.streams import LONGEST, SHARE, SHORTEST, RateControl
from tests.support.leader import FakeLeader
from tests.support.page_names import names_of
from tests.support.pages import text
from tests.support.queries import count_queries
from tests.support.topics import connector, generation

FRAGMENT = {"hx-request": "true"}


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", **{"db.password": "hunter22"}))
    leader.start("flights", tasks=2)
    return leader


def test_an_empty_list_says_so(client: Client) -> None:
    page = text(client.get("/ui/connectors"))
    assert "No connectors yet" in page
    assert "without a login" in page.lower()


def test_a_page_has_the_servers_time(client: Client) -> None:
    before = int(time.time() * 1000)
    found = re.search(r'<body\s+data-now="(\d+)"', text(client.get("/ui/connectors")))
    assert found
    assert before <= int(found[1]) <= time.time() * 1000


def test_the_list_shows_the_abnormal_first(client: Client, flights: FakeLeader) -> None:
    flights.config.config(connector("aa"), connector("zz"))
    flights.start("aa")
    flights.start("zz", state=State.FAILED)
    page = text(client.get("/ui/connectors"))
    assert page.index(">zz</a>") < page.index(">aa</a>") < page.index(">flights</a>")


def test_the_list_filters_and_searches_by_address(client: Client, flights: FakeLeader) -> None:
    flights.config.config(connector("broken"))
    flights.start("broken", state=State.FAILED)
    assert ">flights</a>" not in text(client.get("/ui/connectors?state=attention"))
    assert ">broken</a>" not in text(client.get("/ui/connectors?q=FLI"))
    assert "Nothing matches" in text(client.get("/ui/connectors?q=nothing"))
    assert client.get("/ui/connectors?page=x&state=y").status_code == 200


def test_the_list_is_ordered_by_address(client: Client, leader: FakeLeader) -> None:
    for name, tasks in (("b", 3), ("a", 1), ("c", 2)):
        leader.config.config(connector(name))
        leader.start(name, tasks=tasks, state=State.FAILED if name == "c" else State.RUNNING)
    now_ms = int(time.time() * 1000)
    Task.objects.filter(connector="a").update(rate=7.0, reported_ms=now_ms + 60_000)
    Task.objects.filter(connector="b").update(rate=2.0, reported_ms=now_ms + 60_000)
    Task.objects.filter(connector="c").update(rate=99.0, reported_ms=now_ms - 60_000)  # a rate no more
    for number, name in enumerate("cab"):
        Connector.objects.filter(name=name).update(health_since_ms=number + 1)
    orders = {"": "cab", "nonsense": "cab", "name": "abc", "-name": "cba", "tasks": "acb", "-tasks": "bca"}
    orders |= {"rate": "cba", "-rate": "abc", "since": "cab", "-since": "bac"}
    shown = {sort: "".join(names_of(client.get("/ui/connectors", {"sort": sort}))) for sort in orders}
    assert shown == orders


def test_search_filter_and_order_stay_from_page_to_page(client: Client, leader: FakeLeader) -> None:
    for number in range(120):
        leader.config.config(connector(f"flights-{number:03}"))
    leader.project()
    Connector.objects.update(health="HEALTHY", severity=30)
    query = {"q": "flights", "state": "healthy", "sort": "-name"}
    seen: list[str] = []
    for number in (1, 2, 3):
        response = client.get("/ui/connectors", {**query, "page": str(number)})
        seen += names_of(response)
        if number < 3:
            following = (
                f'rel="next" href="/ui/connectors?q=flights&amp;state=healthy&amp;sort=-name&amp;page={number + 1}"'
            )
            assert following in text(response)
    assert seen == [f"flights-{number:03}" for number in reversed(range(120))]
    page = text(client.get("/ui/connectors", {**query, "page": "2"}))
    assert (
        'aria-sort="descending"><a class="sort" href="/ui/connectors?q=flights&amp;state=healthy&amp;sort=name">'
        in page
    )
    assert 'href="/ui/connectors?q=flights&amp;state=attention&amp;sort=-name"' in page
    assert 'name="sort" value="-name"' in page


def test_page_and_fragment_share_their_address(client: Client, flights: FakeLeader) -> None:
    for path in ("/ui/", "/ui/connectors", "/ui/connectors/flights", "/ui/workers"):
        page, fragment = text(client.get(path)), text(client.get(path, headers=FRAGMENT))
        assert page.startswith("<!DOCTYPE html>")
        assert "<html" not in fragment
        assert "<script" not in fragment


def test_lists_cost_the_same_queries_for_any_number(client: Client, flights: FakeLeader) -> None:
    paths = ("/ui/", "/ui/connectors", "/ui/connectors?sort=-rate", "/ui/connectors?q=c&state=healthy&sort=tasks")

    flights.config.config(connector("waits"))  # one more query, for any number of those that wait for a slot
    flights.project()
    few = count_queries(client, paths)
    for number in range(20):
        flights.config.config(connector(f"c{number}"))
        flights.start(f"c{number}", tasks=3)
    more = count_queries(client, paths)
    for number in range(20, 80):
        flights.config.config(connector(f"c{number}"))
    flights.project()
    assert count_queries(client, paths) == more == few
    assert 0 < max(few) <= 21, "nine of them for the time axis"


def test_a_connector_shows_its_facts_and_no_secret(client: Client, flights: FakeLeader) -> None:
    flights.offsets.offset("flights", {"file": "/x.csv"}, {"position": 4711})
    flights.project()
    page = text(client.get("/ui/connectors/flights"))
    for shown in ("Healthy", "position: 4711", "w1"):
        assert shown in page
    configured = text(client.get("/ui/connectors/flights/config"))
    for shown in ("db.password", "hidden"):
        assert shown in configured
    assert "hunter22" not in page + configured


@pytest.mark.parametrize("state", [*State])
@pytest.mark.parametrize("target", [*TargetState])
def test_every_state_has_its_page(client: Client, leader: FakeLeader, state: State, target: TargetState) -> None:
    leader.config.config(connector("c"), TargetStateRecord(ConnectorName("c"), target))
    leader.start("c", tasks=3, state=state)
    for path in ("/ui/connectors", "/ui/connectors/c"):
        assert client.get(path).status_code == 200
        assert client.get(path, headers=FRAGMENT).status_code == 200


def test_a_state_that_nobody_knows_is_shown_as_unknown(client: Client, flights: FakeLeader) -> None:
    Connector.objects.update(state="DREAMING", health="DREAMY")
    GenerationRow.objects.update(stage="new stage")
    Event.objects.create(connector="flights", type="new type", time_ms=5, summary="<b>something</b>")
    assert "Unknown" in text(client.get("/ui/connectors"))
    page = text(client.get("/ui/connectors/flights"))
    assert "&lt;b&gt;something" in page


def test_without_status_and_generation(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("c"))
    leader.project()
    assert "Starting" in text(client.get("/ui/connectors/c"))


def test_equal_traces_are_one_error_with_its_cause_first(client: Client, flights: FakeLeader) -> None:
    trace = "Traceback\n  File x\nConnectionError: no route with hunter22"
    for number in (0, 1):
        flights.report("flights", number, State.FAILED, trace=trace)
    page = text(client.get("/ui/connectors/flights"))
    assert page.count("<b>no route with [hidden]</b><span><code>ConnectionError</code>") == 1
    assert "2 tasks, the same error: 0, 1" in page
    assert "Restart failed" in page
    assert "hunter22" not in page


def test_a_failed_task_says_when_it_starts_again(client: Client, flights: FakeLeader) -> None:
    flights.report("flights", 0, State.FAILED, trace="x", restarts=1, next_ms=1_700_000_000_000)
    page = text(client.get("/ui/connectors/flights/tasks"))
    assert '<time datetime="2023-11-14T22:13:20+00:00"' in page
    assert "(restart 2 in a row)" in page


def test_a_missing_connector_says_so(client: Client) -> None:
    response = client.get("/ui/connectors/x")
    assert response.status_code == 404
    assert "There is no connector of this name" in text(response)
    assert client.get("/ui/nothing").status_code == 404
    assert "<!DOCTYPE html>" in text(client.get("/ui/nothing"))


@pytest.mark.parametrize(
    ("action", "kind"), [("pause", "pause"), ("resume", "resume"), ("stop", "stop"), ("restart", "restart")]
)
def test_buttons_send_commands_and_tell_what_was_asked(
    client: Client, flights: FakeLeader, action: str, kind: str
) -> None:
    response = client.post(f"/ui/connectors/flights/actions/{action}", headers=FRAGMENT)
    assert response.status_code == 200
    assert "requested" in text(response)
    assert response["hx-trigger"] == "ringfence-refresh"
    assert flights.asked[-1][:2] == (kind, "flights")
    plain = client.post(f"/ui/connectors/flights/actions/{action}")
    assert plain["location"] == "/ui/connectors/flights"


def test_what_is_asked_and_not_yet_there_is_shown_as_a_wish(client: Client, flights: FakeLeader) -> None:
    client.post("/ui/connectors/flights/actions/pause", headers=FRAGMENT)
    assert "Pause requested" in text(client.get("/ui/connectors/flights", headers=FRAGMENT))


def test_a_refusal_stands_beside_the_buttons(client: Client, flights: FakeLeader) -> None:
    flights.refusal = Refusal(503, "No leader <now>")
    response = client.post("/ui/connectors/flights/actions/pause", headers=FRAGMENT)
    assert response.status_code == 503
    assert "No leader &lt;now&gt;" in text(response)
    assert 'role="alert"' in text(response)


def test_actions_are_posts_with_a_csrf_token(flights: FakeLeader) -> None:
    strict = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    assert "Stop flights?" in text(strict.get("/ui/connectors/flights/actions/stop")), "a GET asks"
    assert flights.asked == []
    assert strict.post("/ui/connectors/flights/actions/stop").status_code == 403
    assert flights.asked == []
    strict.get("/ui/connectors/flights")
    token = strict.cookies["ringfence_csrf"].value
    assert strict.post("/ui/connectors/flights/tasks/0/restart", headers={"x-csrftoken": token}).status_code == 302
    assert flights.asked[-1] == ("restart_task", "flights", {"task": 0})
    assert strict.post("/ui/connectors/flights/actions/stop", headers={"x-csrftoken": token}).status_code == 302


def test_creating_from_the_form(client: Client, leader: FakeLeader) -> None:
    assert "VerifiableSource" in text(client.get("/ui/new"))
    form = text(client.get("/ui/new?class=VerifiableSource"))
    assert 'name="setting:topic"' in form
    assert 'type="password"' in form
    sent = {"class": "VerifiableSource", "name": "c", "setting:topic": "", "setting:pin": "", "state": "PAUSED"}
    wrong = client.post("/ui/new", sent)
    assert wrong.status_code == 400
    assert "This setting is required: fill it in." in text(wrong)
    assert 'href="#in-topic"' in text(wrong)
    assert leader.config.records == []
    made = client.post("/ui/new", {**sent, "setting:topic": "t"})
    assert made["location"] == "/ui/connectors/c"
    kind, name, body = leader.asked[-1]
    config = {"name": "c", "connector.class": "VerifiableSource", "topic": "t"}
    assert (kind, name, body) == ("create", "c", {"config": config, "initial_state": "PAUSED", "java": True})


def test_a_field_is_validated_while_it_is_filled_in(client: Client) -> None:
    sent = {"class": "VerifiableSource", "name": "c", "setting:pin": "12"}
    answer = text(client.post("/ui/new/field?key=pin", sent, headers=FRAGMENT))
    assert "too short" in answer
    assert "field-error" not in text(client.post("/ui/new/field?key=name", sent, headers=FRAGMENT))


def test_the_form_without_a_worker_says_what_is_missing(client: Client, leader: FakeLeader) -> None:
    leader.plugins_away = True
    assert "It waited for a worker" in text(client.get("/ui/new?class=VerifiableSource"))


@pytest.mark.parametrize(
    "pasted",
    [
        {"name": "c", "config": {"connector.class": "VerifiableSource", "topic": "t"}},
        {"name": "c", "connector.class": "VerifiableSource", "topic": "t"},
    ],
)
def test_creating_from_pasted_json_in_both_shapes(client: Client, leader: FakeLeader, pasted: dict[str, Any]) -> None:
    made = client.post("/ui/new", {"json": json.dumps(pasted)})
    assert made["location"] == "/ui/connectors/c"
    assert leader.asked[-1][2]["config"]["name"] == "c"


@pytest.mark.parametrize("pasted", ["", "{", "[]", "null", '{"name": 5}', '{"name": "c", "config": {"a": {}}}'])
def test_pasted_nonsense_is_explained(client: Client, leader: FakeLeader, pasted: str) -> None:
    response = client.post("/ui/new", {"json": pasted})
    assert response.status_code == 400
    assert 'role="alert"' in text(response)
    assert leader.asked == []


def test_pages_hold_no_inline_script_or_style(client: Client, flights: FakeLeader) -> None:
    pages = ("/ui/", "/ui/connectors", "/ui/connectors/flights", "/ui/new?class=VerifiableSource", "/ui/workers")
    for path in pages:
        response = client.get(path)
        page = text(response)
        assert "'unsafe-inline'" not in response["content-security-policy"]
        assert "style=" not in page
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)
        assert not re.search(r"\son[a-z]+=", page)
        assert response["x-content-type-options"] == "nosniff"
    for name, limited in (
        ("mark.svg", True),
        ("ringfence.css", False),
        ("live.js", False),
        ("fonts/inter.woff2", False),
    ):
        file = client.get(f"/static/ringfence/{name}")
        assert file["x-content-type-options"] == "nosniff"
        assert ("content-security-policy" in file) == limited, f"{name}: a document has limits, other files only weight"
        file.close()


def test_the_theme_comes_from_its_cookie(client: Client) -> None:
    client.cookies["ringfence_theme"] = "dark"
    assert 'data-theme="dark"' in text(client.get("/ui/connectors"))
    client.cookies["ringfence_theme"] = '"><script>'
    assert "data-theme" not in text(client.get("/ui/connectors"))


def test_logging_in_with_the_token(client: Client) -> None:
    from django.test import override_settings

    with override_settings(NO_LOGIN="", ACCESS_TOKEN="s3same", ALLOWED_HOSTS=["*"]):
        assert client.get("/ui/connectors")["location"] == "/ui/login?next=%2Fui%2Fconnectors"
        assert "These credentials are not valid" in text(client.post("/ui/login", {"secret": "wrong"}))
        assert client.post("/ui/login", {"secret": "s3same"}).status_code == 302
        assert 'href="/ui/settings/sessions"' in text(client.get("/ui/connectors"))
        assert client.get("/connectors").status_code == 200
        client.post("/ui/logout")
        assert client.get("/ui/connectors").status_code == 302
        assert client.get("/ui/connectors", headers={"hx-request": "true"})["location"] == "/ui/login"
        for asked in ("/ui/transactions", "/ui/settings/audit?outcome=done&since=hour", "/ui/connectors/a%2Fb/"):
            login = client.get(asked)["location"]
            assert "These credentials are not valid" in text(client.post(login, {"secret": "wrong"}))
            assert client.post(login, {"secret": "s3same"})["location"] == asked.replace("%2F", "/")
            client.post("/ui/logout")
        elsewhere = "/ui/login?next=https%3A%2F%2Fexample.org%2F"
        assert client.post(elsewhere, {"secret": "s3same"})["location"] == "/ui/connectors"


def test_static_files_are_served(client: Client) -> None:
    from ringfence.web.page_context import SCRIPTS

    for path in ("ringfence/ringfence.css", *SCRIPTS, "ringfence/list.js", "django_htmx/htmx-2.min.js"):
        response = client.get(f"/static/{path}")
        assert response.status_code == 200, path
        response.close()


def test_the_stream_tells_only_about_its_connector() -> None:
    from ringfence.projection.change_notifications import ANYTHING, Notice
    from ringfence.web.live.streams import Hub, Listener

    async def told() -> list[bool]:
        hub, mine, all_of_them = Hub(), Listener("a"), Listener(None)
        hub._listeners |= {mine, all_of_them}
        hub.tell(Notice(("b",)))
        first = [mine.changed.is_set(), all_of_them.changed.is_set()]
        hub.tell(ANYTHING)
        return [*first, mine.changed.is_set()]

    assert asyncio.run(told()) == [False, True, True]


def test_where_many_pages_are_open_numbers_wait_and_a_change_of_state_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.projection.change_notifications import Notice
    from ringfence.web.live import streams as live

    monkeypatch.setattr(RateControl, "states_s", lambda pace, pages: 0.0)
    monkeypatch.setattr(RateControl, "numbers_s", lambda pace, pages: 3600.0)
    monkeypatch.setattr(live.Hub, "add", lambda hub, listener: hub._listeners.add(listener))

    async def told(name: str | None) -> list[str]:
        hub, stream = live.hub(), live.stream(name)
        seen = [await anext(stream)]
        if name is None:
            hub.tell(Notice(moved=("a",)))
            seen.append(await asyncio.wait_for(anext(stream), 10))
        hub.tell(Notice(moved=("a",)))
        waiting = asyncio.ensure_future(anext(stream))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done, "a part because of numbers"
        hub.tell(Notice(changed=("a",)))
        seen.append(await asyncio.wait_for(waiting, 10))
        await stream.aclose()  # type: ignore[attr-defined]
        return [event.partition("\n")[0] if event.startswith("event") else "hello" for event in seen]

    assert asyncio.run(told(None)) == ["hello", "event: rows", "event: changed"]
    assert asyncio.run(told("a")) == ["hello", "event: changed"]


def test_the_more_an_event_costs_and_the_more_pages_are_open_the_less_often_numbers_are_told() -> None:
    clock, used = [0.0], [0.0]
    pace = RateControl(lambda: clock[0], lambda: used[0])

    def tell(events: int, cost: float) -> None:
        for _ in range(events):
            clock[0] += 1.001 / events
            used[0] += cost
            pace.count_event()

    assert pace.numbers_s(200) == SHORTEST
    tell(200, 0.001)
    assert pace.numbers_s(200) == SHORTEST, "two hundred that share one part"
    for _ in range(15):
        tell(50, 0.013)
    assert pace.numbers_s(200) == pytest.approx(200 * 0.013 / SHARE, rel=0.05)
    assert (pace.numbers_s(2), pace.numbers_s(5000)) == (SHORTEST, LONGEST)
    assert pace.states_s(5000) <= SHORTEST
    before = pace.numbers_s(200)
    tell(1, 0.9)
    assert pace.numbers_s(200) == before, "that was something else"
    for _ in range(3):
        tell(200, 0.001)
    assert pace.numbers_s(200) == SHORTEST, "a minute of much work is forgotten in seconds"


def test_lists_are_told_to_look_again_and_a_connector_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.web.live import streams as live

    async def never(hub: live.Hub) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(live.Hub, "_listen", never)
    monkeypatch.setattr(live, "TICK_SECONDS", 0.05)

    async def told() -> list[str]:
        streams = [live.stream(None), live.stream(None), live.stream("flights")]
        assert all(["hello" in await anext(stream) for stream in streams])
        quiet = asyncio.ensure_future(anext(streams[2]))
        seen = await asyncio.wait_for(asyncio.gather(*(anext(stream) for stream in streams[:2])), 10)
        assert not quiet.done()
        quiet.cancel()
        await asyncio.gather(quiet, return_exceptions=True)
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]
        return seen

    one, other = asyncio.run(told())
    assert re.fullmatch(r"event: changed\ndata: \d{13}\n\n", one)
    assert one == other, "so that one part serves both"


def test_without_redis_the_stream_follows_the_database(flights: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence import redis_client
    from ringfence.web.live import streams as live

    monkeypatch.setattr(redis_client, "URL", "redis://127.0.0.1:1/0")
    monkeypatch.setattr(live, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(RateControl, "states_s", lambda pace, pages: 0.0)

    async def first_two() -> list[str]:
        stream = live.stream("flights")
        seen = [await anext(stream), await asyncio.wait_for(anext(stream), 10)]
        await asyncio.to_thread(change)
        seen.append(await asyncio.wait_for(anext(stream), 10))
        await stream.aclose()  # type: ignore[attr-defined]
        return seen

    def change() -> None:
        flights.config.config(*generation("flights", 1, len(flights.config.records)))
        flights.project()
        connection.close()

    hello, changed, again = asyncio.run(first_two())
    assert "hello" in hello
    assert all(re.fullmatch(r"event: changed\ndata: \d{13}\n\n", event) for event in (changed, again))


def test_the_timeline_leaves_out_stages_that_were_passed(client: Client, flights: FakeLeader) -> None:
    for at, stage in enumerate(("reading source offsets", "running", "lost", "starting the plugin")):
        summary, body = f"Task 0: {stage}", json.dumps({"stage": stage})
        Event.objects.create(connector="flights", task=0, type="task", time_ms=at, summary=summary, body=body)
    page = text(client.get("/ui/connectors/flights"))
    shown = re.findall(r"Task 0: ([^<]+)<", page)
    assert shown == ["failed (attempt 0), starting the plugin since then"]


def test_the_database_away_has_its_page(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    from ringfence.web.lists import pages as lists

    def away(query: object, who: object) -> None:
        raise OperationalError("unable to open database file")

    monkeypatch.setattr(lists, "listing", away)
    response = client.get("/ui/connectors")
    assert response.status_code == 503
    assert "RINGFENCE_DATABASE_URL" in text(response)


def test_the_workers_page_names_those_whose_mode_lags_behind(client: Client, leader: FakeLeader) -> None:
    def joins(name: str, mode: str) -> None:
        leader.status.status(WorkerRecord(WorkerId(name), Incarnation("i"), mode, 4, "1", 0))
        leader.project()

    joins("w1", "enabled")
    joins("w2", "enabled")
    assert "Worker modes differ" not in text(client.get("/ui/workers"))
    joins("w2", "disabled")
    page = text(client.get("/ui/workers"))
    assert "Worker modes differ" in page
    assert "w2 (disabled)" in page
