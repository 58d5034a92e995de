"""The admin console: what it says before and after a heavy act, and that there is no way around the verbs."""

import base64
import json
import re
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
import redis
from django.contrib.auth.models import User
from django.test import Client, override_settings

from ringfence import messages, transport
from ringfence.access.models import Grant, Token
from ringfence.audit.models import AuditEntry
from ringfence.console.views import cancel, find_stuck, list_queued_commands
from ringfence.dispatch import Refusal
from ringfence.projection.models import ClusterInfo, Connector, DrainedWorker, GenerationRow, Suspicion, Task, Worker
from tests.support.leader import FakeLeader
from tests.support.new_connector_forms import FRAGMENT
from tests.support.pages import text
from tests.support.topics import connector

CONSOLE = "/ui/connectors/flights"


@pytest.fixture
def flights(leader: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    monkeypatch.setattr("ringfence.console.views.list_queued_commands", list)
    leader.config.config(connector("flights", topic="t", **{"db.password": "hunter22"}))
    leader.start("flights", tasks=2)
    return leader


@pytest.fixture
def outside() -> Iterator[None]:
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="master", ALLOWED_HOSTS=["*"]):
        yield


def logged_in(client: Client, *grants: tuple[str, str], **flags: Any) -> User:
    user = User.objects.create_user("ann", password="right-password-1", **flags)
    for what, pattern in grants:
        Grant.objects.create(user=user, what=what, pattern=pattern)
    assert client.post("/ui/login", {"name": "ann", "secret": "right-password-1"}).status_code == 302
    return user


def entry_of(page: str) -> AuditEntry:
    """The audit entry that an answer links to."""
    found = re.search(r'href="/ui/settings/audit/(\d+)"', page)
    assert found is not None, page
    return AuditEntry.objects.get(pk=int(found[1]))


PAGES = (
    "transactions", "stuck", "connectors/flights/coordinators", "settings/people/ann/rights?connector=flights",
    "settings/people", "settings/roles", "settings/tokens", "settings/audit", "settings/audit?outcome=done&since=hour",
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_no_inline_code_no_secret_and_say_that_no_login_is_asked(
    client: Client, flights: FakeLeader, page: str
) -> None:
    User.objects.create_user("ann")
    response = client.get(f"/ui/{page}")
    shown = text(response)
    assert response.status_code == 200
    assert "hunter22" not in shown
    assert "without a login" in shown
    assert "<style" not in shown
    assert not re.search(r"<script(?![^>]*\ssrc=)", shown)
    policy = response["content-security-policy"]
    assert "unsafe-inline" not in policy
    assert policy == client.get("/ui/connectors")["content-security-policy"]


def test_a_fence_says_in_numbers_what_it_does_and_links_its_entry(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(f"{CONSOLE}/fence"))
    numbers = re.findall(r"<dt[^>]*>([^<]*)</dt><dd>([a-z -]+)", page)
    assert [number for number, _ in numbers] == ["2", "2", "1", "1"]
    assert "queried from Kafka now" in page
    assert "data-close autofocus" in page
    assert "to confirm" not in page, "nothing is lost: no name is typed"
    assert client.post(f"{CONSOLE}/fence", {"reason": " "}).status_code == 400
    assert not [kind for kind, _, _ in flights.asked if kind == "fence_now"]
    done = client.post(f"{CONSOLE}/fence", {"reason": "a zombie"})
    assert done.status_code == 200
    assert flights.asked[-1] == ("fence_now", "flights", {"reason": "a zombie"})
    entry = entry_of(text(done))
    assert (entry.action, entry.connector, entry.outcome) == ("fence", "flights", "done")
    assert "a zombie" in entry.message
    for line in ("g-flights-0: producer 7 has epoch 4 now", "g-flights-1: producer 8 has epoch 4 now"):
        assert line in text(done)
        assert line in entry.message


def test_an_act_asks_over_the_page_from_which_htmx_fetches_it(client: Client, flights: FakeLeader) -> None:
    asked = text(client.get(f"{CONSOLE}/fence", headers=FRAGMENT))
    assert "<html" not in asked
    assert '<h2 id="ask-title">Force a fence of flights?</h2>' in asked
    assert 'hx-target="#ask"' in asked
    refused = client.post(f"{CONSOLE}/fence", {"reason": ""}, headers=FRAGMENT)
    assert (refused.status_code, 'id="ask-title"' in text(refused)) == (400, True)
    done = text(client.post(f"{CONSOLE}/fence", {"reason": "a zombie"}, headers=FRAGMENT))
    assert "<html" not in done
    assert "The round is over" in done
    gone = client.get("/ui/connectors/nobody/fence", headers={**FRAGMENT, "hx-target": "ask"})
    assert (gone.status_code, "<html" in text(gone), "data-close" in text(gone)) == (404, False, True)


def test_ending_a_transaction_fences_its_id(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(f"{CONSOLE}/transactions/0/fence"))
    assert "g-flights-0 is Ongoing; producer 7, epoch 3" in page
    assert "t-0" in page
    done = client.post(f"{CONSOLE}/transactions/0/fence", {"reason": "it hangs", "confirm": "flights"})
    assert flights.asked[-1] == ("fence_id", "flights", {"id": "g-flights-0", "reason": "it hangs"})
    assert "g-flights-0: producer 7 has epoch 4 now" in text(done)
    assert "epoch 4" in entry_of(text(done)).message


def test_numbers_without_kafka_are_those_of_the_tasks_and_it_says_so(client: Client, flights: FakeLeader) -> None:
    Task.objects.filter(connector="flights", number=1).update(open_since_ms=5)
    flights.refusal = Refusal(503, "No worker answers")
    page = text(client.get(f"{CONSOLE}/fence"))
    assert "Kafka could not be queried for open transactions: No worker answers" in page
    assert "as last reported by its tasks" in page
    refused = client.post(f"{CONSOLE}/fence", {"reason": "r", "confirm": "flights"})
    assert (refused.status_code, "No worker answers" in text(refused)) == (503, True)
    assert AuditEntry.objects.get(connector="flights").message == "r. No worker answers"


def test_rounds_drains_and_a_hand_over_ask_the_leader(client: Client, flights: FakeLeader) -> None:
    Worker.objects.create(worker="w1", incarnation="i1", mode="enabled", slots=4, version="1", since_ms=1)
    Worker.objects.create(worker="w2", incarnation="i2", mode="enabled", slots=1, version="1", since_ms=1)
    ClusterInfo.objects.update_or_create(id=1, defaults={"leader": "w1", "incarnation": "i1"})
    asked = []
    for path, more in (
        (f"{CONSOLE}/round", {}),
        ("/ui/workers/w1/drain", {"confirm": "w1"}),
        ("/ui/workers/w1/undrain", {}),
    ):
        assert client.get(path).status_code == 200
        assert client.post(path, {"reason": "r", **more}).status_code == 200, path
        asked.append(flights.asked[-1])
    assert asked == [
        ("retry_round", "flights", {"reason": "r"}),
        ("drain_worker", None, {"worker": "w1", "drained": True, "reason": "r"}),
        ("drain_worker", None, {"worker": "w1", "drained": False, "reason": "r"}),
    ]
    drain = text(client.get("/ui/workers/w1/drain"))
    assert re.findall(r"<dt[^>]*>([^<]*)</dt>", drain) == ["1", "1"]  # two tasks, one free slot on w2
    assert "w1 finishes its writes" in text(client.get("/ui/leader/hand-over"))
    flights.refusal = Refusal(409, "No other live worker is there to lead")
    alone = client.post("/ui/leader/hand-over", {"reason": "r", "confirm": "w1"})
    assert (alone.status_code, "no other live worker" in text(alone)) == (409, True)
    DrainedWorker.objects.create(worker="w1", incarnation="i1")
    assert text(client.get("/ui/workers")).count("drained</span>") == 1
    told = client.get("/api/v1/workers").json()["results"]
    assert [(one["worker"], one["drained"]) for one in told] == [("w1", True), ("w2", False)]


def test_a_suspicion_is_shown_until_the_worker_is_trusted_or_started_again(client: Client) -> None:
    Worker.objects.create(worker="w1", incarnation="i1", mode="enabled", slots=3, version="1", since_ms=1)
    row = Suspicion.objects.create(worker="w1", incarnation="i1", trust="suspected", times=2)

    def shown() -> tuple[bool, bool, str, int]:
        page = text(client.get("/ui/workers"))
        (told,) = client.get("/api/v1/workers?worker=w1").json()["results"]
        return "suspected</span>" in page, "calming</span>" in page, told["trust"], told["suspicions"]

    assert shown() == (True, False, "suspected", 2)
    Suspicion.objects.filter(pk=row.pk).update(trust="calming")
    assert shown() == (False, True, "calming", 2)
    Suspicion.objects.filter(pk=row.pk).update(incarnation="an-earlier-one", trust="suspected")
    assert shown() == (False, False, "trusted", 0)


@pytest.mark.usefixtures("outside")
def test_django_flags_open_nothing(client: Client, flights: FakeLeader) -> None:
    logged_in(client, is_superuser=True, is_staff=True)
    for page in (
        "connectors",
        "settings/people",
        "settings/tokens",
        "settings/audit",
        "settings/people/new",
        "connectors/flights/fence",
    ):
        refused = client.get(f"/ui/{page}")
        assert (refused.status_code, "lacks the verb" in text(refused)) == (403, True), page
    assert client.post(f"{CONSOLE}/fence", {"reason": "r", "confirm": "flights"}).status_code == 403
    assert AuditEntry.objects.get(connector="flights").outcome == "refused"


@pytest.mark.usefixtures("outside")
def test_each_act_needs_its_verb_where_it_acts(client: Client, flights: FakeLeader) -> None:
    logged_in(client, ("operator", "*"), ("fence", "other-*"))
    assert client.post(f"{CONSOLE}/round", {"reason": "r"}).status_code == 200
    refused = client.post(f"{CONSOLE}/fence", {"reason": "r", "confirm": "flights"})
    assert "`fence` on connector flights" in text(refused)
    assert client.post("/ui/workers/w1/drain", {"reason": "r", "confirm": "w1"}).status_code == 403
    assert "/fence" not in text(client.get("/ui/connectors/flights"))
    assert "/ui/settings/people" not in text(client.get("/ui/connectors"))
    assert client.get("/ui/stuck").status_code == 200


def test_lists_of_the_admin_take_no_writes(client: Client, flights: FakeLeader) -> None:
    AuditEntry.objects.create(time_ms=1, action="x")
    number = AuditEntry.objects.get().pk
    for path in ("settings/people", f"settings/audit/{number}"):
        assert client.get(f"/ui/{path}").status_code == 200
        assert client.post(f"/ui/{path}", {"action": "delete_selected"}).status_code == 405
    for path in (
        "auth/user/add/",
        "auth/user/1/change/",
        f"audit/auditentry/{number}/delete/",
        "login/",
        "password_change/",
    ):
        assert client.get(f"/console/{path}").status_code == 404, path


def test_accounts_grants_and_tokens(client: Client, flights: FakeLeader) -> None:
    new = {"name": "bob", "password": "long-enough-9x", "what": "operator", "pattern": "team-*", "reason": "joins"}
    new["topics"] = "team.* logs"
    assert "root is not one of the available choices" in text(
        client.post("/ui/settings/people/new", {**new, "what": "root"})
    )
    assert "too short" in text(client.post("/ui/settings/people/new", {**new, "password": "x1"}))
    done = client.post("/ui/settings/people/new", new)
    entry = entry_of(text(done))
    assert (entry.action, entry.outcome, entry.message) == ("create account", "done", "joins")
    assert "long-enough-9x" not in json.dumps(list(AuditEntry.objects.values()))
    bob = User.objects.get(username="bob")
    assert bob.check_password("long-enough-9x")
    assert [grant.topics for grant in Grant.objects.all()] == ["team.* logs"]
    assert "matches no topic" in text(client.post("/ui/settings/people/bob/grant", {**new, "topics": "a/b"}))
    assert "long-enough" not in bob.password
    assert (
        client.post(
            "/ui/settings/people/bob/grant", {"what": "fence", "pattern": "*", "topics": "*", "reason": "r"}
        ).status_code
        == 200
    )
    made = client.post(
        "/ui/settings/people/bob/token",
        {"label": "ci", "what": "viewer", "pattern": "*", "topics": "ci.*", "days": "9", "reason": "r"},
    )
    secret = re.search(r'value="(rf_[^"]+)"', text(made))
    assert secret is not None
    assert made["cache-control"] == "no-store"
    assert secret[1] not in text(client.get("/ui/settings/tokens"))
    assert secret[1] not in json.dumps(list(AuditEntry.objects.values()))
    row = Token.objects.get()
    assert row.topics == "ci.*"
    assert client.post(f"/ui/settings/tokens/{row.pk}/revoke", {"reason": "r", "confirm": "ci"}).status_code == 200
    assert Token.objects.get().state == "revoked"
    other = {"password": "another-enough-9", "again": "another-enough-8", "reason": "r"}
    assert "differ" in text(client.post("/ui/settings/people/bob/password", other))
    assert client.post("/ui/settings/people/bob/disable", {"reason": "left", "confirm": "bob"}).status_code == 200
    assert not User.objects.get(username="bob").is_active
    number = Grant.objects.get(pattern="team-*").pk
    assert client.post(f"/ui/settings/roles/{number}/take", {"reason": "r", "confirm": "bob"}).status_code == 200
    assert [grant.what for grant in Grant.objects.all()] == ["fence"]


def test_the_answer_about_rights_is_what_a_request_meets(client: Client, flights: FakeLeader) -> None:
    from ringfence.access.principal import Verb
    from ringfence.console.account_actions import principal_for

    bob = User.objects.create_user("bob", password="right-password-1")
    Grant.objects.create(user=bob, what="operator fence", pattern="fl*", topics="t.*")
    shown = text(client.get("/ui/settings/people/bob/rights?connector=flights"))
    told = dict(re.findall(r'data-verb="([\w-]+)" data-allowed="(\w+)"', shown))
    assert {verb for verb, allowed in told.items() if allowed == "yes"} == {
        *("view", "view-config", "view-data", "operate", "fence")
    }
    assert "t.*" in shown
    with override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"]):
        client.force_login(bob)
        path = "/ui/connectors/flights/actions/pause"
        assert client.post(path).status_code < 400
        assert client.get("/ui/connectors/flights/delete").status_code == 403
        assert client.get("/ui/settings/people/bob/rights?connector=flights").status_code == 403
        other = text(client.get("/ui/connectors/other"))
        assert "lacks the verb" in other
    bob.is_active = False
    assert principal_for(bob).verbs_on("flights") == frozenset()
    assert len(told) == len(Verb)


def test_stuck_operations_are_listed_with_age_and_reason(client: Client, flights: FakeLeader) -> None:
    from ringfence.access.principal import EVERYBODY_HERE

    assert find_stuck(EVERYBODY_HERE) == ([], "")
    now = int(time.time() * 1000)
    Connector.objects.filter(name="flights").update(fencing=True)
    GenerationRow.objects.update(committed_ms=now - 60_000, stage="failed", message="no broker answers")
    AuditEntry.objects.create(time_ms=now - 200_000, action="edit", request="PUT /x", connector="flights")
    found, _ = find_stuck(EVERYBODY_HERE, now)
    assert [(one.what.split()[0], now - one.since_ms) for one in found] == [("PUT", 200_000), ("Fencing", 60_000)]
    shown = text(client.get("/ui/stuck"))
    assert "no broker answers" in shown
    assert f"{CONSOLE}/round" in shown
    assert 'href="/ui/docs/exactly-once#what-each-failure-looks-like"' in shown
    assert 'href="/ui/docs/operations#troubleshooting"' in shown
    Connector.objects.filter(name="flights").update(fencing=False)
    Task.objects.filter(number=1).update(state="UNASSIGNED", why="placed", since_ms=now - 90_000)
    assert "has not started it" in text(client.get("/ui/stuck"))
    Task.objects.filter(number=1).update(why="no-slot")
    assert 'href="/ui/docs/deployment#sizing"' in text(client.get("/ui/stuck"))


def test_a_command_that_waits_is_taken_back_before_a_leader_takes_it(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch, valkey: Any
) -> None:
    store = redis.Redis.from_url(valkey.url)
    store.delete("leader")
    monkeypatch.setattr(transport, "results", store)
    monkeypatch.setattr("ringfence.console.views.list_queued_commands", list_queued_commands)
    sender = transport.client(valkey.url)
    command = {"kind": "create", "connector": "x", "user": "ann", "body": {"config": {"password": "hunter22"}}}
    sent = sender.send_task(
        "ringfence.leader.command", kwargs={"command": command, "deadline": time.time() + 60}, queue="leader"
    )
    store.rpush("leader", base64.b64encode(b"no command"))
    shown = text(client.get("/ui/stuck"))
    assert "Command create by ann waits for a leader" in shown
    assert "hunter22" not in shown
    path = f"/ui/waiting/{sent.id}"
    assert client.get(path).status_code == 200
    assert client.post(path, {"reason": "wrong one"}).status_code == 200
    assert [one.id for one in list_queued_commands()] == []
    told = messages.decode(cast(bytes, store.get(f"celery-task-meta-{sent.id}")))
    assert (told["result"]["ok"], told["result"]["status"]) == (False, 409)
    late = client.post(path, {"reason": "again"})
    assert (late.status_code, "Too late" in text(late)) == (400, True)


def test_a_leader_that_is_quicker_keeps_its_command(
    flights: FakeLeader, monkeypatch: pytest.MonkeyPatch, valkey: Any
) -> None:
    store = redis.Redis.from_url(valkey.url)
    store.delete("leader")
    monkeypatch.setattr(transport, "results", store)
    command = {"kind": "pause", "connector": "x", "body": {}}
    sent = transport.client(valkey.url).send_task(
        "ringfence.leader.command", kwargs={"command": command, "deadline": time.time() + 60}, queue="leader"
    )
    lrem = store.lrem

    def taken_before(*arguments: Any) -> Any:
        store.rpop("leader")
        return lrem(*arguments)

    monkeypatch.setattr(store, "lrem", taken_before)
    assert cancel(str(sent.id), "ann") is False
    assert store.get(f"celery-task-meta-{sent.id}") is None


def test_a_page_of_another_site_cannot_send_an_act(flights: FakeLeader) -> None:
    strict = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    assert strict.post(f"{CONSOLE}/fence", {"reason": "r", "confirm": "flights"}).status_code == 403
    assert not [kind for kind, _, _ in flights.asked if kind == "fence_now"]
