"""Rights: separate verbs on patterns of names, the same for pages and API, and never more than a token's scope."""

import base64
import json
import time
from typing import Any

import pytest
from django.test import Client, override_settings

from ringfence.access.principal import ALL_RIGHTS, ROLES, Principal, Right, Verb, verbs_of
from ringfence.fencing.name_patterns import matches
from tests.support.accounts import CONFIG, JSON, MASTER, account, bearer
from tests.support.leader import FakeLeader
from tests.support.pages import text

pytestmark = pytest.mark.usefixtures("login_required")

CALLS: list[tuple[Verb, str, str, Any]] = [
    (Verb.VIEW, "get", "/connectors/{}/status", None),
    (Verb.VIEW, "get", "/connectors/{}/offsets", None),
    (Verb.VIEW, "get", "/ui/connectors/{}", None),
    (Verb.VIEW, "get", "/ui/events?connector={}", None),
    (Verb.VIEW_CONFIG, "get", "/connectors/{}/config", None),
    (Verb.VIEW_CONFIG, "get", "/connectors/{}/tasks", None),
    (Verb.VIEW_CONFIG, "get", "/api/v1/preflight?connector={}", None),
    (Verb.VIEW_DATA, "get", "/api/v1/connectors/{}/dead-letters", None),
    (Verb.OPERATE, "post", "/api/v1/connectors/{}/dead-letters/replay", {"all": True}),
    (Verb.OPERATE, "put", "/connectors/{}/pause", {}),
    (Verb.OPERATE, "post", "/connectors/{}/restart?includeTasks=true", {}),
    (Verb.OPERATE, "post", "/ui/connectors/{}/actions/stop", None),
    (Verb.OPERATE, "post", "/ui/connectors/{}/tasks/0/restart", None),
    (Verb.EDIT, "put", "/connectors/{}/config", CONFIG),
    (Verb.EDIT, "patch", "/connectors/{}/config", {"topic": "u"}),
    (Verb.EDIT, "get", "/ui/connectors/{}/edit", None),
    (Verb.OFFSETS, "delete", "/connectors/{}/offsets", None),
    (Verb.OFFSETS, "patch", "/connectors/{}/offsets", {"offsets": [{"partition": {}, "offset": None}]}),
    (Verb.OFFSETS, "post", "/ui/connectors/{}/offsets/move", None),
    (Verb.VIEW, "get", "/api/v1/connectors/{}/incremental-snapshot", None),
    (Verb.OFFSETS, "post", "/api/v1/connectors/{}/incremental-snapshot", {"action": "pause"}),
    (Verb.OFFSETS, "delete", "/api/v1/connectors/{}/incremental-snapshot", None),
    (Verb.VIEW, "get", "/ui/connectors/{}/snapshots", None),
    *((Verb.OFFSETS, "post", f"/ui/connectors/{{}}/snapshots/{act}", None) for act in ("start", "pause", "resume")),
    (Verb.OFFSETS, "get", "/ui/connectors/{}/snapshots/start", None),
    (Verb.OFFSETS, "get", "/ui/connectors/{}/snapshots/stop", None),
    (Verb.OFFSETS, "post", "/ui/connectors/{}/snapshots/stop", None),
    (Verb.DELETE, "delete", "/connectors/{}", None),
    (Verb.DELETE, "post", "/ui/connectors/{}/delete", None),
]


@pytest.mark.parametrize(("verb", "method", "path", "body"), CALLS)
def test_each_call_needs_its_verb_on_that_connector(
    client: Client, two_connectors_of_teams: FakeLeader, verb: Verb, method: str, path: str, body: Any
) -> None:
    others = " ".join(v.value for v in Verb if v not in (verb, Verb.ADMIN))
    ann = bearer(account("ann", (others, "*"), (verb.value, "team-*")))
    arguments: dict[str, Any] = {} if body is None else {"data": json.dumps(body), "content_type": JSON}
    before = list(two_connectors_of_teams.asked)
    refused = getattr(client, method)(path.format("other"), headers=ann, **arguments)
    assert refused.status_code == 403
    said = refused.content.decode()
    assert verb.value in said
    assert "connector other" in said
    assert two_connectors_of_teams.asked == before
    allowed = getattr(client, method)(path.format("team-a"), headers=ann, **arguments)
    assert allowed.status_code != 403


def test_a_connector_is_created_only_where_its_name_may_be_edited(client: Client, leader: FakeLeader) -> None:
    ann = bearer(account("ann", ("editor", "team-*")))
    body = {"name": "other", "config": CONFIG}
    refused = client.post("/connectors", body, content_type=JSON, headers=ann)
    assert refused.status_code == 403
    assert "`edit` on connector other" in json.loads(refused.content)["message"]
    assert leader.asked == []
    pasted = {"json": json.dumps(body), "state": "RUNNING"}
    assert client.post("/ui/new", pasted, headers=ann).status_code == 403
    filled = {"name": "other", "class": "VerifiableSource", "setting:topic": "t"}
    assert client.post("/ui/new", filled, headers=ann).status_code == 403
    assert leader.asked == []
    mine = {"name": "team-b", "config": CONFIG}
    assert client.post("/connectors", mine, content_type=JSON, headers=ann).status_code == 201


def test_lists_show_what_may_be_seen_and_no_more(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    ann = bearer(account("ann", ("viewer", "team-*")))
    assert json.loads(client.get("/connectors", headers=ann).content) == ["team-a"]
    assert set(json.loads(client.get("/connectors?expand=status&expand=info", headers=ann).content)) == {"team-a"}
    for path in ("/metrics", "/ui/connectors"):
        shown = client.get(path, headers=ann).content.decode()
        assert "team-a" in shown
        assert "other" not in shown
    nobody = bearer(account("bob"))
    refused = client.get("/connectors", headers=nobody)
    assert refused.status_code == 403
    assert "`view`" in json.loads(refused.content)["message"]


def test_the_stream_tells_of_changes_that_may_be_seen() -> None:
    from ringfence.projection.change_notifications import Notice
    from ringfence.web.live.streams import Listener

    listener = Listener(None, Principal("ann", "token", (Right(ROLES["viewer"], "team-*"),)))
    listener.tell(Notice(("other",), ("other",)))
    assert not listener.changed.is_set()
    listener.tell(Notice(("other", "team-a")))
    assert listener.changed.is_set()


def test_without_view_config_every_value_is_hidden_and_may_be_sent_back(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    ann = bearer(account("ann", ("view edit", "*")))
    shown = json.loads(client.get("/connectors/team-a", headers=ann).content)["config"]
    assert (shown["topic"], shown["name"]) == ("[hidden]", "team-a")
    listed = json.loads(client.get("/connectors?expand=info", headers=ann).content)
    assert listed["team-a"]["info"]["config"]["topic"] == "[hidden]"
    assert client.put("/connectors/team-a/config", shown, content_type=JSON, headers=ann).status_code == 200
    assert two_connectors_of_teams.asked[-1][2]["config"]["topic"] == "t"
    assert b">topic<" not in client.get("/ui/connectors/team-a", headers=ann).content


def test_a_mask_of_somebody_elses_connector_is_not_filled_in(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    """Or its secret could be sent to a place of one's own choice, while the plugin checks that place."""
    ann = bearer(account("ann", ("editor", "team-*")))
    body = {**CONFIG, "name": "other", "pin": "[hidden]"}
    for path in ("/connector-plugins/VerifiableSource/config/validate", "/api/v1/preflight"):
        assert client.put(path, body, content_type=JSON, headers=ann).status_code == 403
        own = {**body, "name": "team-a"}
        assert client.put(path, own, content_type=JSON, headers=ann).status_code == 200
    pasted = {"json": json.dumps(body)}
    assert client.post("/ui/new/preflight", pasted, headers=ann).status_code == 403


def test_a_token_never_does_more_than_its_scope_or_its_user(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    ann = account("ann", ("operator", "team-*"))
    narrow = bearer(ann, "viewer", "*")
    assert client.get("/connectors/team-a/status", headers=narrow).status_code == 200
    assert client.put("/connectors/team-a/pause", headers=narrow).status_code == 403
    wide = bearer(ann, "admin", "*")
    assert client.put("/connectors/team-a/pause", headers=wide).status_code == 202
    assert client.put("/connectors/other/pause", headers=wide).status_code == 403
    assert client.delete("/connectors/team-a", headers=wide).status_code == 403
    named = bearer(ann, "operator", "team-b")
    assert json.loads(client.get("/connectors", headers=named).content) == []


def test_a_token_is_shown_once_and_kept_as_a_digest(client: Client) -> None:
    from ringfence.access import tokens
    from ringfence.access.models import Token

    row, text = tokens.create(account("ann", ("viewer", "*")), "ci", ["viewer"])
    stored = " ".join(str(value) for value in Token.objects.values_list().get())
    assert text not in stored
    assert text[8:] not in stored
    basic = base64.b64encode(f"anything:{text}".encode()).decode()
    assert client.get("/connectors", headers={"authorization": f"Basic {basic}"}).status_code == 200
    assert Token.objects.get().last_used_ms > 0
    tokens.revoke(row)
    assert client.get("/connectors", headers={"authorization": f"Bearer {text}"}).status_code == 401
    with pytest.raises(ValueError, match="neither a role nor a verb"):
        tokens.create(row.user, "x", ["root"])


def test_an_expired_token_and_a_disabled_user_are_out_at_once(client: Client) -> None:
    from ringfence.access.models import Token

    ann = account("ann", ("viewer", "*"))
    headers = bearer(ann, seconds=60)
    assert client.get("/connectors", headers=headers).status_code == 200
    Token.objects.update(expires_ms=int(time.time() * 1000) - 1)
    assert client.get("/connectors", headers=headers).status_code == 401
    headers = bearer(ann)
    assert client.get("/connectors", headers=headers).status_code == 200
    ann.is_active = False
    ann.save()
    assert client.get("/connectors", headers=headers).status_code == 401


def test_a_session_is_worth_what_its_account_or_token_is(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    from ringfence.access import tokens

    ann = account("ann", ("viewer", "team-*"))
    assert client.post("/ui/login", {"name": "ann", "secret": "ann-password-9"}).status_code == 302
    assert json.loads(client.get("/connectors").content) == ["team-a"]
    refused = client.post("/ui/connectors/team-a/actions/stop", headers={"hx-request": "true"})
    assert refused.status_code == 403
    assert b"ann lacks the verb `operate`" in refused.content
    assert b"<html" not in refused.content
    client.post("/ui/logout")
    row, text = tokens.create(ann, "phone", ["viewer"])
    assert client.post("/ui/login", {"secret": text}).status_code == 302
    assert client.get("/ui/connectors").status_code == 200
    tokens.revoke(row)
    assert client.get("/ui/connectors").status_code == 302


def test_buttons_that_would_be_refused_say_which_verb_is_missing(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    import re

    headers = bearer(account("ann", ("viewer delete", "*")))
    page = text(client.get("/ui/connectors/team-a/tasks", headers=headers))
    shut = {"do-pause", "do-restart", "do-stop", "restart-0"}
    assert set(re.findall(r'id="([a-z0-9-]+)" disabled title="You need the operate permission', page)) == shut
    assert re.search(r'id="do-delete" class', page)
    assert "/edit" not in page
    assert 'title="Restart task 0"' in client.get("/ui/connectors/team-a/tasks", headers=MASTER).content.decode()


def test_sessions_of_the_server_token_end_with_it(client: Client) -> None:
    client.post("/ui/login", {"secret": "master"})
    assert client.get("/ui/connectors").status_code == 200
    with override_settings(ACCESS_TOKEN="another"):
        assert client.get("/ui/connectors").status_code == 302
    with override_settings(ACCESS_TOKEN=""):
        assert client.get("/ui/connectors").status_code == 302


def test_writes_of_a_session_need_the_csrf_token_and_those_of_tokens_do_not(
    two_connectors_of_teams: FakeLeader,
) -> None:
    strict = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    strict.get("/ui/login")
    entered = {"secret": "master", "csrfmiddlewaretoken": strict.cookies["ringfence_csrf"].value}
    assert strict.post("/ui/login", entered).status_code == 302
    strict.get("/ui/connectors")
    refused = strict.put("/connectors/other/pause")
    assert refused.status_code == 403
    assert "CSRF" in json.loads(refused.content)["message"]
    token = strict.cookies["ringfence_csrf"].value
    assert strict.put("/connectors/other/pause", headers={"x-csrftoken": token}).status_code == 202
    assert strict.put("/connectors/other/pause", headers=MASTER).status_code == 202
    assert strict.get("/connectors").status_code == 200


def test_an_undeclared_view_is_closed_to_everybody(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.api.connectors import Status

    monkeypatch.setattr(Status, "access", {})
    response = client.get("/connectors/x/status", headers=MASTER)
    assert response.status_code == 403
    assert "declares no permission" in json.loads(response.content)["message"]


def test_roles_are_names_for_verbs() -> None:
    assert ROLES["viewer"] < ROLES["operator"] < ROLES["editor"] < ROLES["admin"] == frozenset(Verb)
    assert verbs_of(["viewer", "fence"]) == {Verb.VIEW, Verb.VIEW_CONFIG, Verb.FENCE}


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*", "a/b", True),
        ("team-*", "team-", True),
        ("team-*", "my-team-x", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a\\d", "a\\d", True),
        ("a$|b", "b", False),
        ("é*", "été", True),
        ("", "", True),
    ],
)
def test_patterns_mean_the_same_in_python_and_in_the_database(pattern: str, name: str, expected: bool) -> None:
    from ringfence.projection.models import Connector

    Connector.objects.create(name=name, known=True)
    who = Principal("x", "token", (Right(frozenset({Verb.VIEW}), pattern),))
    assert matches(pattern, name) is expected
    assert Connector.objects.filter(who.query()).exists() is expected
    capped = Principal("x", "token", (ALL_RIGHTS,), ceiling=Right(frozenset({Verb.VIEW}), pattern))
    assert Connector.objects.filter(capped.query()).exists() is expected
    assert not Connector.objects.filter(who.query(Verb.EDIT)).exists()


def test_the_servers_token_cannot_be_taken_for_a_person(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    from ringfence.audit.models import AuditEntry

    account("ann", ("editor", "*"))
    for claimed, shown in (("ann", "token:ann"), ("x" * 300, f"token:{'x' * 150}"), ("", "token")):
        basic = base64.b64encode(f"{claimed}:master".encode()).decode()
        answer = client.put("/connectors/team-a/pause", headers={"authorization": f"Basic {basic}"})
        assert answer.status_code == 202
        entry = AuditEntry.objects.order_by("-pk")[0]
        assert (entry.user, entry.via) == (shown, "server token")
