"""Who may come in: this machine only, or a token on every route; and secrets that never come out."""

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringfence.fencing.topics.status import State
from tests.support.leader import FakeLeader
from tests.support.queries import count_queries
from tests.support.routes import concrete, routes
from tests.support.topics import connector_status

CONFIG = {"connector.class": "VerifiableSource", "topic": "t"}
JSON = "application/json"
OPEN = {"health", "health/live", "health/ready", "ui/login", "docs", "docs/<name:name>"}
OPEN |= {"hooks/<name:name>"}  # signed by its sender, or not at all: the task judges
OPEN |= {"ui/login/sso", "ui/login/sso/callback", "ui/login/sso/ended", "ui/login/sso/logout"}
SIGNED = ("connectors/<name:name>/fence", "put")


def test_every_route_asks_for_a_token_when_others_can_reach_it(client: Client, token_required: None) -> None:
    listed = list(routes())
    assert len(listed) > 15
    for route in listed:
        for method in ("get", "post", "put", "patch", "delete"):
            response = getattr(client, method)(concrete(route))
            if (route, method) == SIGNED:
                assert response.status_code == 400
                continue
            if route in OPEN:
                assert response.status_code != 401, route
            elif route in ("ui", "console") or route.startswith(("ui/", "console/")):
                where = response["location"].partition("?")[0]
                assert (response.status_code, where) == (302, "/ui/login"), (route, method)
            else:
                assert response.status_code == 401, (route, method)
                assert "Basic" in response["www-authenticate"]


def views(patterns: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(entry, URLResolver):
            yield from views(entry.url_patterns, prefix + str(entry.pattern))
        elif isinstance(entry, URLPattern):
            yield prefix + str(entry.pattern), entry.callback


def test_every_route_declares_what_each_of_its_methods_needs() -> None:
    from ringfence.access.authorise import Reach, declarations, methods_of

    for route, view in views():
        needs = declarations(view)
        assert needs, f"{route} declares no verb: nobody may use it"
        answered = methods_of(view)
        if answered is not None:
            assert answered - {"HEAD"} == set(needs) - {"HEAD"}, f"{route} must declare each method it answers"
        for method, need in needs.items():
            assert (need.reach is Reach.PUBLIC) <= (route in OPEN), f"{route} is open to everybody"
            assert (need.reach is Reach.SIGNED) == ((route, method.lower()) == SIGNED)
            assert need.verbs or need.reach in (Reach.PUBLIC, Reach.SIGNED, Reach.ANYONE, Reach.WHOLE), (
                f"{method} {route} names no verb"
            )
            assert "<name:name>" in route or need.reach is not Reach.CONNECTOR, f"{route} names no connector"


def test_every_route_that_changes_something_is_a_write_with_its_own_verb() -> None:
    from ringfence.access.authorise import Reach, declarations

    asks_only = {"connector-plugins/<name:name>/config/validate", "api/v1/preflight", "ui/new/field", "ui/logout"}
    asks_only |= {"api/v1/transforms/trial"}
    asks_only |= {
        "ui/new/as",
        "ui/new/steps",
        "ui/new/beside",
        "ui/new/test",  # it leaves an entry of its own, as a trial and a preview do
        "ui/new/trial",
        "ui/new/review",
        "ui/connectors/<name:name>/dead-letters/question",
        "ui/topics/<name:name>/tail/next",  # goes on with what an entry tells of
        "api/v1/plugin-installations/<int:number>/bytes",  # the same: the entry has the SHA-256 of these bytes
    }
    for route, view in views():
        for method, need in declarations(view).items():
            harmless = (
                method in ("GET", "HEAD", "OPTIONS")
                or route in asks_only
                or "preflight" in route
                or route.endswith("/preview")
            )
            assert need.writes or harmless or need.reach in (Reach.PUBLIC, Reach.SIGNED), (
                f"{method} {route} leaves no audit entry"
            )
            assert not (need.writes and need.verbs[:1] in (("view",), ("view-config",))), f"{method} {route}"


def test_bearer_and_basic_carry_the_token(client: Client, token_required: None) -> None:
    basic = base64.b64encode(b"ann:s3same-open").decode()
    for good in ("Bearer s3same-open", f"Basic {basic}", f"basic {basic}"):
        assert client.get("/connectors", headers={"authorization": good}).status_code == 200
    wrong = base64.b64encode(b"s3same-open:").decode()
    for bad in ("Bearer wrong", "Bearer", "Bearer ", f"Basic {wrong}", "Basic \xff", "Basic !!", "Digest x", ""):
        assert client.get("/connectors", headers={"authorization": bad}).status_code == 401


def test_an_empty_token_lets_nobody_in(client: Client, settings_of: Any) -> None:
    settings_of(NO_LOGIN="", ACCESS_TOKEN="", ALLOWED_HOSTS=["*"])
    for given_token in ("Bearer ", "Bearer", "Basic " + base64.b64encode(b":").decode()):
        assert client.get("/connectors", headers={"authorization": given_token}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(client: Client, leader: FakeLeader, headers: dict[str, str]) -> None:
    client.post("/connectors", {"name": "c", "config": CONFIG}, content_type=JSON)
    before = list(leader.asked)
    for method, path in (("post", "/connectors/c/restart"), ("put", "/connectors/c/stop"), ("delete", "/connectors/c")):
        response = getattr(client, method)(path, headers=headers)
        assert response.status_code == 403
        assert json.loads(response.content)["error_code"] == 403
    assert leader.asked == before
    own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert client.put("/connectors/c/stop", headers=own).status_code == 204


def test_a_foreign_host_name_is_refused_on_loopback(client: Client) -> None:
    response = client.get("/connectors", headers={"host": "evil.example"})
    assert response.status_code == 400
    assert "host name" in json.loads(response.content)["message"]


def test_secrets_are_masked_by_type_and_by_name(client: Client, leader: FakeLeader) -> None:
    config = {**CONFIG, "pin": "123456", "db.password": "hunter22", "oauth.token": "${file:/x:token}", "user": "ann"}
    created = client.post("/connectors", {"name": "c", "config": config}, content_type=JSON)
    answers = [created.content]
    paths = ("/connectors/c", "/connectors/c/config", "/connectors/c/tasks", "/connectors?expand=info&expand=status")
    answers += [client.get(path).content for path in paths]
    shown = json.loads(client.get("/connectors/c/config").content)
    assert shown["pin"] == shown["db.password"] == "[hidden]"
    assert shown["oauth.token"] == "${file:/x:token}"
    assert shown["user"] == "ann"
    assert not any(b"123456" in answer or b"hunter22" in answer for answer in answers)


def test_a_mask_that_comes_back_keeps_the_secret(client: Client, leader: FakeLeader) -> None:
    config = {**CONFIG, "pin": "123456"}
    client.post("/connectors", {"name": "c", "config": config}, content_type=JSON)
    shown = json.loads(client.get("/connectors/c/config").content)
    assert client.put("/connectors/c/config", {**shown, "topic": "u"}, content_type=JSON).status_code == 200
    assert leader.asked[-1][2]["config"]["pin"] == "123456"
    assert client.patch("/connectors/c/config", {"pin": "[hidden]"}, content_type=JSON).status_code == 200
    assert leader.asked[-1][2]["config"]["pin"] == "123456"
    new = client.post("/connectors", {"name": "d", "config": {**CONFIG, "pin": "[hidden]"}}, content_type=JSON)
    assert new.status_code == 400


def test_without_a_word_from_the_plugin_only_harmless_settings_show(client: Client, leader: FakeLeader) -> None:
    from tests.support.topics import connector

    leader.config.config(connector("c", topic="t", combination="0815-4711"))
    leader.project()
    leader.plugins_away = True
    shown = json.loads(client.get("/connectors/c/config").content)
    assert (shown["topic"], shown["combination"]) == ("t", "[hidden]")


def test_errors_and_traces_do_not_quote_secrets(client: Client, leader: FakeLeader) -> None:
    config = {**CONFIG, "pin": "4711"}
    response = client.post("/connectors", {"name": "c", "config": config}, content_type=JSON)
    assert response.status_code == 400
    assert b"4711" not in response.content
    checked = client.put("/connector-plugins/VerifiableSource/config/validate", config, content_type=JSON)
    assert b"4711" not in checked.content
    client.post("/connectors", {"name": "c", "config": {**CONFIG, "pin": "123456"}}, content_type=JSON)
    leader.status.status(connector_status("c", State.FAILED, "login with 123456 refused"))
    leader.project()
    trace = json.loads(client.get("/connectors/c/status").content)["connector"]["trace"]
    assert trace == "login with [hidden] refused"


def test_lists_cost_the_same_queries_for_any_number(client: Client, leader: FakeLeader) -> None:
    client.post("/connectors", {"name": "c0", "config": CONFIG}, content_type=JSON)
    leader.start("c0")
    path = "/connectors?expand=status&expand=info"
    (few,) = count_queries(client, [path])
    for number in range(1, 30):
        client.post("/connectors", {"name": f"c{number}", "config": CONFIG}, content_type=JSON)
        leader.start(f"c{number}", tasks=2)
    (more,) = count_queries(client, [path])
    assert 0 < more == few <= 4


NAMES = ["a/b", "a%b", "a%2Fb", "a b", "ünïcode", "日本", "a?b#c", "..x", "a\\b", "%", "%25", "a+b", "'\"<>"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_works_when_it_is_encoded(name: str, leader: FakeLeader) -> None:
    from urllib.parse import quote

    from ringfence.asgi import application

    async def calls() -> None:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            made = await http.post("/connectors", json={"name": name, "config": CONFIG})
            assert made.status_code == 201
            assert made.headers["location"] == f"http://localhost/connectors/{quote(name, safe='')}"
            told = await http.get(made.headers["location"] + "/config")
            assert told.json()["name"] == name
            assert (await http.put(made.headers["location"] + "/pause/")).status_code == 202
            assert (await http.delete(made.headers["location"])).status_code == 204
        assert leader.asked[-1][1] == name

    asyncio.run(calls())


_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_bodies = st.binary(max_size=40) | _json.map(lambda value: json.dumps(value).encode())
_known = st.sampled_from(["name", "config", "initial_state", "offsets", "connector.class", "topic", "partition"])
_near = st.dictionaries(_known, _json | st.just([{"partition": {}}]), max_size=5).map(lambda v: json.dumps(v).encode())


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=_bodies | _near)
def test_no_body_is_an_internal_error(client: Client, sent: bytes) -> None:
    for method, path in (
        ("POST", "/connectors"),
        ("PUT", "/connectors/c/config"),
        ("PATCH", "/connectors/c/config"),
        ("PATCH", "/connectors/c/offsets"),
        ("PUT", "/connector-plugins/VerifiableSource/config/validate"),
    ):
        response = client.generic(method, path, sent, content_type=JSON)
        assert response.status_code < 500, (method, path, sent, response.content)
        if response.status_code >= 400:
            assert json.loads(response.content)["error_code"] == response.status_code


def test_the_database_away_is_said_in_plain_words(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    from ringfence.api import connector_reads

    def away(who: object) -> list[str]:
        raise OperationalError("unable to open database file")

    monkeypatch.setattr(connector_reads, "names", away)
    response = client.get("/connectors")
    assert response.status_code == 503
    assert "RINGFENCE_DATABASE_URL" in json.loads(response.content)["message"]
