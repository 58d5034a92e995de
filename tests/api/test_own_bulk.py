"""`/api/v1/bulk/…`, export, import, and connectors that begin at offsets: a result for each, secrets in none."""

import json
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringfence.dispatch import CommandResult, Refusal
from ringfence.requests.request import Command
from tests.support.accounts import JSON, account, bearer
from tests.support.leader import FakeLeader
from tests.support.own_api import problem

CONFIG = {"connector.class": "VerifiableSource", "topic": "t", "pin": "hunter2"}


def post(client: Client, path: str, body: Any, **headers: str) -> Any:
    return client.post(f"/api/v1/{path}", body, content_type=JSON, headers=headers)


@pytest.mark.parametrize("action", ["pause", "resume", "stop", "restart", "delete"])
def test_an_action_on_many_has_a_result_for_each(client: Client, two_connectors: FakeLeader, action: str) -> None:
    body = post(client, f"bulk/{action}", {"connectors": ["team-a", "other"]}).json()
    assert [(each["connector"], each["ok"]) for each in body["results"]] == [("team-a", True), ("other", True)]
    assert [(kind, name) for kind, name, _ in two_connectors.asked[-2:]] == [(action, "team-a"), (action, "other")]
    wrongs: list[dict[str, Any]] = [
        {},
        {"connectors": []},
        {"connectors": ["a", "a"]},
        {"connectors": "a"},
        {"connectors": [1]},
        {"x": 1},
    ]
    for wrong in wrongs:
        problem(post(client, f"bulk/{action}", wrong), 400)


def test_one_that_fails_does_not_stop_the_others_and_each_has_its_audit_entry(
    client: Client, two_connectors: FakeLeader, login_required: None
) -> None:
    from ringfence.audit.models import AuditEntry

    mine = bearer(account("ann", ("operator", "team-*")))
    asked = {"connectors": ["other", "team-x", "team-a"]}
    found = post(client, "bulk/pause", asked, **mine).json()["results"]
    assert [(each["connector"], each["status"]) for each in found] == [("other", 403), ("team-x", 404), ("team-a", 200)]
    assert "`operate` on connector other" in found[0]["message"]
    entries = {row.connector: row.outcome for row in AuditEntry.objects.filter(user="ann")}
    assert entries == {"other": "refused", "team-x": "failed", "team-a": "done"}
    assert "`delete`" in problem(post(client, "bulk/delete", asked, **mine), 403)


@pytest.mark.parametrize("form", ["json", "yaml", "properties"])
def test_an_export_can_be_imported_and_holds_no_secret(client: Client, two_connectors: FakeLeader, form: str) -> None:
    exported = client.get(f"/api/v1/export?format={form}")
    assert exported.status_code == 200
    text = exported.content.decode()
    assert "hunter2" not in text
    before = list(two_connectors.asked)
    again = post(client, "import", {"format": form, "text": text}).json()["results"]
    assert [(each["connector"], each["message"]) for each in again] == [("other", "unchanged"), ("team-a", "unchanged")]
    assert two_connectors.asked == before
    changed = text.replace("team-a", "team-b").replace("[hidden]", "hunter9")
    dry = post(client, "import", {"format": form, "text": changed, "dry_run": True}).json()["results"]
    assert [each["message"] for each in dry] == ["would be changed", "would be created"]
    assert two_connectors.asked == before
    done = post(client, "import", {"format": form, "text": changed}).json()["results"]
    assert [each["message"] for each in done] == ["changed", "created"]
    assert two_connectors.asked[-1][2]["each"][-1]["config"]["pin"] == "hunter9"


def test_an_import_saves_several_by_one_command_and_says_of_each_what_became_of_it(
    client: Client, two_connectors: FakeLeader, login_required: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence import bulk
    from ringfence.audit.models import AuditEntry
    from ringfence.history.models import ConfigVersion

    monkeypatch.setattr(bulk, "AT_ONCE", 4)
    mine = bearer(account("ann", ("editor", "team-*")))
    names = ["team-1", "other", "team-2", "team-3", "team-4", "team-5"]
    configs = [{"name": name, "config": dict(CONFIG)} for name in names]
    configs[2]["config"] = {**CONFIG, "pin": "q7zx"}
    configs[3]["config"] = {"topic": "t"}
    before = len(two_connectors.asked)
    results = post(client, "import", {"format": "json", "text": json.dumps(configs)}, **mine).json()["results"]
    assert [(each["connector"], each["status"]) for each in results] == [
        ("team-1", 200), ("other", 403), ("team-2", 400), ("team-3", 400), ("team-4", 200), ("team-5", 200)
    ]  # fmt: skip
    assert "too short" in results[2]["message"]
    assert "Invalid value [hidden]" in results[2]["message"], "the value is a secret"
    assert "contains no connector type" in results[3]["message"]
    asked = two_connectors.asked[before:]
    assert [(kind, [each["connector"] for each in body["each"]]) for kind, _, body in asked] == [
        ("configure_together", ["team-1", "team-2", "team-4"]),
        ("configure_together", ["team-5"]),
    ]
    entries = {row.connector: row.outcome for row in AuditEntry.objects.filter(user="ann")}
    assert entries == {
        "team-1": "done", "other": "refused", "team-2": "failed", "team-3": "failed", "team-4": "done", "team-5": "done"
    }  # fmt: skip
    client.get("/api/v1/connectors", headers=mine)  # waits for what is done behind the answer
    authors = set(ConfigVersion.objects.filter(connector__startswith="team-", user="ann").values_list("connector"))
    assert authors == {("team-1",), ("team-4",), ("team-5",)}


def test_a_leader_that_refuses_refuses_each_of_an_import(client: Client, two_connectors: FakeLeader) -> None:
    two_connectors.refusal = Refusal(503, "There is no leader")
    configs = [{"name": name, "config": CONFIG} for name in ("one", "two")]
    results = post(client, "import", {"format": "json", "text": json.dumps(configs)}).json()["results"]
    assert [(each["status"], each["message"]) for each in results] == [(503, "There is no leader")] * 2


def test_what_cannot_be_imported_is_said(client: Client, two_connectors: FakeLeader) -> None:
    for form, text in (
        ("json", "{"),
        ("json", "[]"),
        ("json", '{"config": {}}'),
        ("json", '[{"name": "a", "b": {"c": 1}}]'),
        ("yaml", "a: ["),
        ("yaml", "- name: a\n- name: a"),
        ("yaml", "- name: &a [x, x]\n  config: {b: c}\n"),
        ("yaml", "- name: b\n  config: {b: &c d, e: *c}\n"),
        ("properties", "=x"),
        ("xml", "x"),
    ):
        problem(post(client, "import", {"format": form, "text": text}), 400)
    masked = post(
        client, "import", {"format": "properties", "text": "name=new\nconnector.class=VerifiableSource\npin=[hidden]"}
    )
    assert masked.json()["results"][0]["status"] == 400


def test_export_and_import_need_their_verbs(client: Client, two_connectors: FakeLeader, login_required: None) -> None:
    mine = bearer(account("ann", ("viewer", "team-*")))
    exported = client.get("/api/v1/export", headers=mine).json()
    assert [each["name"] for each in exported] == ["team-a"]
    assert "on connector other" in problem(client.get("/api/v1/export?connector=other", headers=mine), 403)
    assert "`edit`" in problem(post(client, "import", {"format": "json", "text": "[]"}, **mine), 403)
    problem(client.get("/api/v1/export?format=xml", headers=mine), 400)


KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1).filter(lambda key: key != "name")
VALUES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES | st.sampled_from([" a", "a\\", "a\nb", "no", "1.50", "#x", "=", "${file:/a:b}"])))
def test_every_form_keeps_every_setting(config: dict[str, str]) -> None:
    from ringfence.api.v1.transfer import FORMATS, parse, write

    configs = [{**config, "name": "a"}, {"name": "b c"}]
    for form in FORMATS:
        assert parse(write(configs, form), form) == configs


def test_a_connector_begins_at_its_offsets(client: Client, two_connectors: FakeLeader) -> None:
    entry = {"partition": {"id": 0}, "offset": {"seqno": 41}}
    body = {"name": "new", "config": CONFIG, "initial_offsets": [entry]}
    answer = post(client, "connectors", body)
    assert answer.status_code == 201
    assert answer["location"].endswith("/api/v1/connectors/new")
    assert [(kind, name) for kind, name, _ in two_connectors.asked[-3:]] == [
        ("create", "new"),
        ("alter_offsets", "new"),
        ("resume", "new"),
    ]
    assert two_connectors.asked[-3][2]["initial_state"] == "STOPPED"
    assert two_connectors.asked[-2][2]["offsets"] == [entry]
    for wrong in ({"name": ""}, {**body, "initial_offsets": []}, {**body, "initial_state": "x"}, {**body, "x": 1}):
        problem(post(client, "connectors", wrong), 400)


def test_refused_offsets_leave_no_connector(
    client: Client, two_connectors: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence import dispatch

    def refuse(request: Command[Any], **more: Any) -> CommandResult[Any]:
        if request.name == "alter_offsets":
            raise Refusal(status, "no such line")
        return two_connectors.command(request, **more)

    monkeypatch.setattr(dispatch, "command", refuse)
    entry = {"partition": {}, "offset": {"n": 1}}
    body: dict[str, Any] = {"name": "new", "config": CONFIG, "initial_offsets": [entry]}
    status = 400
    assert "was not created" in problem(post(client, "connectors", body), 400)
    assert client.get("/connectors/new").status_code == 404
    status, body["name"] = 500, "newer"  # the stand-in leader creates a name once only
    assert "is unknown" in problem(post(client, "connectors", body), 500)
    assert client.get("/connectors/newer").status_code == 200


def test_initial_offsets_need_the_verb_for_offsets(
    client: Client, two_connectors: FakeLeader, login_required: None
) -> None:
    mine = bearer(account("ann", ("edit view", "*")))
    body = {"name": "new", "config": CONFIG, "initial_offsets": [{"partition": {}, "offset": {"n": 1}}]}
    assert "`offsets` on connector new" in problem(post(client, "connectors", body, **mine), 403)
    assert client.get("/connectors/new", headers=mine).status_code == 404
    assert post(client, "connectors", {"name": "new", "config": CONFIG}, **mine).status_code == 201
