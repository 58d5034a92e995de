"""`/api/v1/`: pages, filters, order, rights, problem details, and the schema that says so."""

import json
import re

import pytest
from django.test import Client

from tests.support.accounts import JSON, account, bearer
from tests.support.leader import FakeLeader
from tests.support.own_api import problem, report, results

LISTS = [
    "/api/v1/connectors",
    "/api/v1/connectors/team-a/generations",
    "/api/v1/connectors/team-a/tasks",
    "/api/v1/connectors/team-a/attempts",
    "/api/v1/connectors/team-a/events",
    "/api/v1/connectors/team-a/offset-snapshots",
    "/api/v1/events",
    "/api/v1/audit",
    "/api/v1/workers",
]
ONES = ["/api/v1/connectors/team-a", "/api/v1/leader", "/api/v1/connectors/team-a/transactions"]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_is_paged_and_refuses_what_it_does_not_know(
    client: Client, two_connectors: FakeLeader, path: str
) -> None:
    body = client.get(path).json()
    assert set(body) == {"count", "next", "previous", "results"}
    first = client.get(path, {"limit": 1}).json()
    seen, following = list(first["results"]), first["next"]
    while following:
        page = client.get(following).json()
        assert len(page["results"]) == 1
        assert page["previous"]
        seen, following = seen + page["results"], page["next"]
    assert seen == body["results"]
    assert client.get(path, {"offset": 2**62}).json()["results"] == []
    wrong = ("limit=0", "limit=x", "limit=1001", "offset=-1", "order=secret", "order=", "what=1", "limit=1&limit=2")
    for query in wrong:
        assert problem(client.get(f"{path}?{query}"), 400)


@pytest.mark.parametrize(
    "query, said",
    [
        ("logs?limit=0", "limit must be an integer from 1 to 1000."),
        ("logs?task=x", "task must be an integer from -1 to 9223372036854775807."),
        ("logs?task=-2", "task must be an integer from -1 to"),
        ("logs?since=yesterday", "since must be milliseconds since the epoch or a time like"),
        ("logs?until=99999999999999999999", "until must be milliseconds"),
        ("logs?level=loud", "level must be one of"),
        ("logs?order=-id,secret", "order must be some of id, time_ms, separated by commas"),
        ("logs?order=id%0A", "order must be some of"),
        ("logs?search=%00", "search must be a string."),
        ("logs?level=INFO&loud=1", "Unknown query parameter loud: use some of limit, offset, order, level, task"),
    ],
)
def test_a_list_says_which_parameter_is_wrong(
    client: Client, two_connectors: FakeLeader, query: str, said: str
) -> None:
    assert said in problem(client.get(f"/api/v1/connectors/team-a/{query}"), 400)


def test_the_document_has_what_a_list_checks(client: Client) -> None:
    document = client.get("/api/schema", {"format": "json"}).json()
    declared = document["paths"]["/api/v1/connectors/{name}/logs"]["get"]["parameters"]
    found = {each["name"]: each["schema"] for each in declared if each["in"] == "query"}
    assert list(found) == ["level", "limit", "offset", "order", "request", "search", "since", "task", "until"]
    assert not any(each.get("required") for each in declared if each["in"] == "query")
    assert (found["limit"]["minimum"], found["limit"]["maximum"], found["limit"]["default"]) == (1, 1000, 50)
    assert found["task"]["minimum"] == -1
    assert "TRACE" in found["level"]["enum"]
    assert found["order"]["pattern"].startswith("^-?(id|time_ms)")


@pytest.mark.parametrize("path", [*LISTS, *ONES])
def test_a_read_needs_its_verb(client: Client, two_connectors: FakeLeader, login_required: None, path: str) -> None:
    problem(client.get(path), 401)
    verb = "view-config" if path.endswith("audit") else "view"
    others = bearer(account("ann", ("operate edit offsets delete", "*")))
    assert f"`{verb}`" in problem(client.get(path, headers=others), 403)
    mine = bearer(account("bob", ("viewer", "team-*")))
    assert client.get(path, headers=mine).status_code == 200
    assert problem(client.put(path, {}, content_type=JSON, headers=mine), 405)
    if "team-a" in path:
        strange = path.replace("team-a", "other")
        assert "on connector other" in problem(client.get(strange, headers=mine), 403)


@pytest.mark.parametrize("path", [path for path in [*LISTS, *ONES] if "team-a" in path])
def test_what_is_not_there_is_a_404(client: Client, path: str) -> None:
    assert "x/y" in problem(client.get(path.replace("team-a", "x%2Fy")), 404)


def test_lists_hold_what_may_be_seen(client: Client, two_connectors: FakeLeader, login_required: None) -> None:
    report({"type": "warning", "connector": "other", "message": "m"}, {"type": "warning", "connector": "team-a"})
    mine = bearer(account("bob", ("viewer", "team-*")))
    listed = [client.get(path, headers=mine).content.decode() for path in LISTS]
    assert not [text for text in listed if '"other"' in text]
    assert client.get("/api/v1/workers", headers=mine).json()["results"][0]["tasks"] == 2


def test_connectors_are_filtered_and_ordered(client: Client, two_connectors: FakeLeader) -> None:
    path = "/api/v1/connectors"
    assert [row["name"] for row in results(client, path)] == ["other", "team-a"]
    assert [row["name"] for row in results(client, path, order="-name")] == ["team-a", "other"]
    assert [row["name"] for row in results(client, path, search="EAM")] == ["team-a"]
    assert results(client, path, state="FAILED") == []
    assert results(client, path, fencing="true") == []
    assert (client.get(path, {"fencing": "maybe"}).status_code) == 400
    assert results(client, path)[1]["tasks"] == 2


def test_a_generation_tells_what_was_fenced_and_how_long_it_took(client: Client, two_connectors: FakeLeader) -> None:
    number = results(client, "/api/v1/connectors/team-a/generations")[0]["generation"]
    fenced = [{"id": "g-team-a-0", "producer_id": 7, "epoch": 3}]
    told = {"type": "round", "connector": "team-a", "generation": number, "stage": "done", "fenced": fenced, "ms": 12}
    report(told)
    shown = client.get(f"/api/v1/connectors/team-a/generations/{number}").json()
    assert (shown["fenced"], shown["took_ms"], shown["stage"], shown["current"]) == (fenced, 12, "done", True)
    assert problem(client.get("/api/v1/connectors/team-a/generations/12345678901234567890"), 404)


def test_events_are_filtered_by_connector_kind_user_and_time(client: Client, two_connectors: FakeLeader) -> None:
    report(
        {"type": "command", "connector": "team-a", "kind": "stop", "outcome": "done", "user": "ann", "time_ms": 1_000},
        {"type": "command", "connector": "team-a", "kind": "stop", "outcome": "done", "user": "anna", "time_ms": 2_000},
        {"type": "task", "connector": "team-a", "task": 1, "attempt": 2, "stage": "ended", "message": "pin hunter2"},
        {"type": "leader", "worker": "w1", "stage": "elected", "time_ms": 9_000},
    )
    path = "/api/v1/events"
    of_one = results(client, path, connector="team-a", order="time_ms,kind")
    assert [row["kind"] for row in of_one] == ["command", "task", "command"], client.get(path).content
    assert len(results(client, path, user="ann")) == 1
    assert len(results(client, path, kind="leader")) == 1
    assert len(results(client, path, since="1970-01-01T00:00:02Z")) == 2
    assert len(results(client, path, until=9_000)) == 3
    assert problem(client.get(path, {"since": "yesterday"}), 400)
    attempts = results(client, "/api/v1/connectors/team-a/attempts", task=1)
    assert [(row["attempt"], row["stage"]) for row in attempts] == [(2, "ended")]
    assert b"hunter2" not in client.get(path).content
    assert "hunter2" not in json.dumps(attempts)


def test_the_audit_trail_is_filtered_by_user_and_connector(
    client: Client, two_connectors: FakeLeader, login_required: None
) -> None:
    editor = bearer(account("ann", ("editor", "*")))
    assert client.put("/connectors/team-a/pause", headers=editor).status_code == 202
    found = client.get("/api/v1/audit", {"user": "ann"}, headers=editor).json()["results"]
    assert [(row["action"], row["connector"]) for row in found] == [("operate", "team-a")]
    assert client.get("/api/v1/audit", {"user": "bob"}, headers=editor).json()["count"] == 0
    assert b"hunter2" not in client.get("/api/v1/audit", headers=editor).content


def test_the_schema_names_every_route_with_its_methods(client: Client) -> None:
    from ringfence.api.v1.urls import urlpatterns

    schema = client.get("/api/schema").json()
    assert schema["openapi"].startswith("3.")
    by_path = {re.sub(r"<\w+:(\w+)>", r"{\1}", f"/{entry.pattern}"): entry for entry in urlpatterns}
    assert set(schema["paths"]) == set(by_path)
    for path, entry in by_path.items():
        view = entry.callback.view_class  # type: ignore[attr-defined]
        assert {method.upper() for method in schema["paths"][path]} == set(view.access)
    names = [each["operationId"] for path in schema["paths"].values() for each in path.values()]
    assert len(names) == len(set(names))


def test_the_docs_need_nothing_from_elsewhere(client: Client) -> None:
    import re

    page = client.get("/api/docs/")
    assert page.status_code == 200
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.content.decode())
    assert [each for each in addresses if not each.startswith(("/", "#")) or each.startswith("//")] == []
    assets = [each for each in addresses if each.startswith("/static/")]
    assert any("swagger" in each for each in assets)
    for asset in assets:
        assert client.get(asset).status_code == 200, asset
    assert "unsafe-inline" not in page["content-security-policy"].split("style-src")[0]
