"""The overview and the list: numbers lead to what they count, rows tell why, and many are acted on at once."""

import csv
import io
import re
import time
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ringfence.access.principal import Principal, Right, Verb
from ringfence.audit.models import AuditEntry
from ringfence.dispatch import Refusal
from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.topics.status import LeaderRecord, State, WorkerRecord
from ringfence.projection.health import KnownHealth, reason
from ringfence.projection.models import ActiveTopic, Connector, Event, HangingTransaction, Minute, Task
from ringfence.projection.task_minutes import EVERYTHING, ITSELF, minute_of
from ringfence.web.lists import pages as lists
from ringfence.web.lists.connector_rows import rows_of
from ringfence.web.lists.overview import overview
from ringfence.web.live.fragment_cache import LONGEST_MS, FragmentCache
from tests.support.leader import FakeLeader
from tests.support.page_names import names_of
from tests.support.pages import text
from tests.support.queries import count_queries
from tests.support.topics import connector

FRAGMENT = {"hx-request": "true"}
TEAM = Principal("ann", "token", (Right(frozenset(Verb), "team-*"),))


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def many(leader: FakeLeader) -> FakeLeader:
    """One of each kind."""
    for name, state in (("good", State.RUNNING), ("bad", State.FAILED), ("quiet", State.PAUSED)):
        leader.config.config(connector(name, pin="123456"))
        leader.start(name, tasks=2, state=state)
    worker = WorkerRecord(WorkerId("w1"), Incarnation("i"), "enabled", 4, "1", 5)
    leader.status.status(LeaderRecord(WorkerId("w1"), Incarnation("i"), 1, 5), worker)
    leader.project()
    return leader


def test_every_number_of_the_overview_leads_to_the_list_behind_it(client: Client, many: FakeLeader) -> None:
    many.config.config(connector("late"))
    many.start("late", tasks=2)
    many.report("late", 0, State.FAILED)
    Task.objects.filter(connector="good", number=0).update(open_since_ms=now_ms() - 15_000)
    page = text(client.get("/ui/"))
    numbers = re.findall(r'href="([^"]+)"[^>]*>(?:<span[^>]*></span>)?(?:<b[^>]*>)?\s*([\d,.]+)', page)
    found = {unescape(address): number for address, number in numbers}
    assert found["/ui/connectors"] == "4"
    for state, names in (
        ("unhealthy", ["bad"]), ("degraded", ["late"]), ("stalled", []), ("healthy", ["good"]), ("stopped", []),
        ("open", ["good"]),
    ):  # fmt: skip
        address = f"/ui/connectors?state={state}"
        if names:
            assert found[address] == str(len(names)), address
        else:
            assert address not in found, "a state that no connector is in is not told"
        assert names_of(client.get(address)) == names
    assert names_of(client.get("/ui/connectors?state=failed-tasks")) == ["bad", "late"]
    assert found["/ui/connectors?state=failed-tasks"] == "3"
    assert found["/ui/connectors?sort=-tasks"] == "3"
    assert found["/ui/workers"] == "1"


def test_the_overview_tells_what_is_wrong_first_with_its_cause_and_no_secret(client: Client, many: FakeLeader) -> None:
    many.report("bad", 1, State.FAILED, trace="Traceback\n  File x\nOSError: no route with 123456")
    Event.objects.create(connector="bad", type="round", time_ms=5, summary="Generation 4: done with 123456")
    page = text(client.get("/ui/"))
    wrong = page[page.index("Needs attention") :]
    assert "no route with [hidden]" in wrong
    assert "OSError" not in wrong
    assert 'href="/ui/connectors/bad"' in wrong
    assert "good" not in wrong[: wrong.index("</section>")]
    assert "Generation 4: done with [hidden]" in page
    assert "123456" not in page


def test_without_leader_or_worker_the_overview_says_so_first(client: Client, leader: FakeLeader) -> None:
    page = text(client.get("/ui/"))
    assert "No workers connected" in page
    assert "There are no connectors yet" in page


def test_the_axis_of_the_last_hour_has_a_summary_and_a_table(client: Client, many: FakeLeader) -> None:
    last = minute_of(now_ms()) - 1
    Minute.objects.bulk_create(
        Minute(connector=EVERYTHING, task=ITSELF, minute=last - ago, records=6000) for ago in (0, 1, 70)
    )
    page = text(client.get("/ui/"))
    assert '<p class="quiet axis-told">12,000 records.</p>' in page
    assert re.search(r'class="most"\s*>\s*6,000/min\s*</text\s*>', page)
    assert page.count('<th scope="row">') == 2, "of other minutes nothing is known"


def test_the_overview_shows_what_may_be_seen_and_no_more(many: FakeLeader) -> None:
    many.config.config(connector("team-a"))
    many.start("team-a")
    last = minute_of(now_ms()) - 1
    Minute.objects.create(connector="team-a", task=0, minute=last, records=60)
    Minute.objects.create(connector=EVERYTHING, task=ITSELF, minute=last, records=900)
    Event.objects.create(connector="bad", type="round", time_ms=5, summary="theirs")
    Event.objects.create(connector="team-a", type="round", time_ms=5, summary="mine")
    seen, everything = overview(TEAM), overview()
    assert (seen["total"], seen["tasks"]["all"], seen["axis"].summary) == (1, 1, "60 records.")
    assert [view.event.summary for view in seen["events"]] == ["mine"]
    assert seen["wrong"] == []
    assert (everything["total"], everything["axis"].summary) == (4, "900 records.")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"health": "UNHEALTHY", "state": "RUNNING", "task_count": 0}, "It runs without a task"),
        ({"health": "UNHEALTHY", "task_count": 1, "tasks_failed": 1}, "Its only task has failed"),
        ({"health": "UNHEALTHY", "task_count": 3, "tasks_failed": 3}, "All 3 tasks have failed"),
        ({"health": "UNHEALTHY", "state": "FAILED"}, "The connector itself has failed"),
        ({"health": "UNHEALTHY", "unreadable": "x"}, "Its configuration in Kafka cannot be read"),
        ({"health": "DEGRADED", "task_count": 3, "tasks_failed": 1}, "1 of 3 tasks failed"),
        ({"health": "STALLED", "usual_pause": 4}, "No records for longer than usual (until now 4 min at most)"),
        ({"health": "STARTING", "task_count": 3, "tasks_running": 1}, "1 of 3 tasks running"),
        ({"health": "HEALTHY"}, ""),
        ({"health": "DREAMING"}, ""),
    ],
)
def test_each_health_says_why(fields: dict[str, Any], told: str) -> None:
    assert reason(Connector(name="c", **fields), KnownHealth()) == told


def test_a_running_connector_without_tasks_is_not_healthy(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("c"))
    leader.start("c", tasks=0)
    assert "It runs without a task" in text(client.get("/ui/connectors?state=unhealthy"))


def test_each_row_has_the_last_hour_as_a_strip(client: Client, many: FakeLeader) -> None:
    minute = minute_of(now_ms())
    Minute.objects.filter(connector="good").delete()
    Minute.objects.create(connector="good", task=0, minute=minute - 10, state="FAILED", began="RUNNING", restarts=1)
    Minute.objects.create(connector="good", task=1, minute=minute - 9, state="RUNNING", began="RUNNING", records=5)
    Task.objects.filter(connector="good").update(since_ms=5)
    Connector.objects.filter(name="good").update(since_ms=5)
    (row,) = rows_of(Connector.objects.filter(name="good"), minute * 60_000)
    assert dict(row.hour.runs) == {"ok": "M0 6h49M50 6h10", "bad": "M49 6h1"}
    assert row.hour.marks == "M49.5 0v12"
    assert row.hour.text == "Last 60 minutes: running in 59, failed in 1; 1 restart"
    assert row.hour.text in text(client.get("/ui/connectors"))


def test_rows_cost_the_same_queries_for_five_and_for_fifty(client: Client, leader: FakeLeader) -> None:
    paths = ["/ui/connectors", "/ui/connectors?state=open", "/ui/", "/ui/connectors.csv", "/ui/find?q=c"]
    counted = []
    for upto in (5, 50):
        for number in range(Connector.objects.count(), upto):
            leader.config.config(connector(f"c{number}"))
            leader.start(f"c{number}", tasks=2, state=State.FAILED if number % 3 else State.RUNNING)
        rows = "&".join(f"row=c{number}" for number in range(upto))
        counted.append(count_queries(client, [*paths, f"/ui/connectors?{rows}"], FRAGMENT))
    assert counted[0] == counted[1]
    assert max(counted[0]) <= 21, "nine of them for the time axis of the overview"


def test_rows_alone_are_those_of_the_list_and_only_what_may_be_seen(client: Client, many: FakeLeader) -> None:
    whole = text(client.get("/ui/connectors", headers=FRAGMENT))
    rows = text(client.get("/ui/connectors?row=good&row=bad&row=nobody", headers=FRAGMENT))
    assert re.findall(r'<tr id="row-([^"]+)"', rows) == ["good", "bad"]
    shown = whole[whole.index('<tr id="row-good"') :]
    assert rows.startswith(shown[: shown.index("</tr>")])
    assert lists._rows(["good"], TEAM, 0).text == ""


def test_links_of_a_fragment_hold_nothing_that_only_fragments_have(client: Client, many: FakeLeader) -> None:
    part = text(client.get("/ui/connectors?q=o&at=5", headers=FRAGMENT))
    assert 'href="/ui/connectors?q=o&amp;state=healthy"' in part
    assert "at=5" not in part


def test_a_part_serves_all_who_ask_since_before_it_was_made_and_nobody_else() -> None:
    clock = [1000.0]
    fresh, made = FragmentCache(lambda: clock[0]), []

    def make() -> str:
        made.append(clock[0])
        return f"part {len(made)}"

    assert fresh.get("k", 0, make).text == "part 1"
    assert fresh.get("k", 0, make).text == "part 2"
    assert fresh.get("k", 999_000, make).text == "part 2"
    assert fresh.get("k", 1_000_000, make).text == "part 2"
    assert fresh.get("k", 1_000_001, make).text == "part 3"
    assert fresh.get(("k", "other eyes"), 999_000, make).text == "part 4"
    clock[0] += LONGEST_MS / 1000 + 0.01
    assert fresh.get("k", 1, make).text == "part 5"


def test_pages_woken_by_one_event_share_one_part(client: Client, many: FakeLeader) -> None:
    at = now_ms()
    client.get(f"/ui/connectors?at={at}", headers=FRAGMENT)
    client.get(f"/ui/connectors?row=good&at={at}", headers=FRAGMENT)
    for path in (f"/ui/connectors?at={at}", f"/ui/connectors?row=good&at={at}"):
        with CaptureQueriesContext(connection) as captured:
            assert "good" in text(client.get(path, headers=FRAGMENT))
        assert len(captured) == 0, path
    Connector.objects.filter(name="good").update(task_count=77)
    assert 'data-tasks="77"' not in text(client.get(f"/ui/connectors?row=good&at={at}", headers=FRAGMENT))
    assert 'data-tasks="77"' in text(client.get(f"/ui/connectors?row=good&at={now_ms() + 1}", headers=FRAGMENT))
    assert 'data-tasks="77"' in text(client.get("/ui/connectors", headers=FRAGMENT))


def test_one_action_on_many_has_a_result_for_each(client: Client, many: FakeLeader) -> None:
    sent = {"connector": ["good", "nobody", "quiet"]}
    response = client.post("/ui/bulk/pause", sent, headers=FRAGMENT)
    assert response.status_code == 200
    page = text(response)
    assert [asked[:2] for asked in many.asked] == [("pause", "good"), ("pause", "nobody"), ("pause", "quiet")]
    assert "1 refused, 2 done" in page
    assert page.index("Unknown connector nobody") < page.index(">good<")
    assert response["hx-trigger"] == "ringfence-refresh"
    outcomes = AuditEntry.objects.order_by("connector").values_list("connector", "outcome")
    assert [(name, outcome == "done") for name, outcome in outcomes] == [
        ("good", True), ("nobody", False), ("quiet", True),
    ]  # fmt: skip
    assert "<!DOCTYPE html>" in text(client.post("/ui/bulk/resume", {"connector": "good"}))


def test_all_that_match_are_acted_on_if_they_are_as_many_as_were_shown(client: Client, many: FakeLeader) -> None:
    stale = client.post("/ui/bulk/stop", {"all": "1", "expected": "3", "q": "oo"}, headers=FRAGMENT)
    assert (stale.status_code, many.asked) == (409, [])
    assert "1 connector matches now" in text(stale)
    client.post("/ui/bulk/stop", {"all": "1", "expected": "2", "q": "", "state": ""}, headers=FRAGMENT)
    assert many.asked == []
    client.post("/ui/bulk/stop", {"all": "1", "expected": "1", "q": "oo"}, headers=FRAGMENT)
    assert [asked[:2] for asked in many.asked] == [("stop", "good")]


def test_deleting_many_needs_their_number_and_a_reason(client: Client, many: FakeLeader) -> None:
    for confirm in ("", "delete", "delete 3", "good"):
        sent = {"connector": ["good", "bad"], "confirm": confirm, "reason": "old"}
        assert client.post("/ui/bulk/delete", sent, headers=FRAGMENT).status_code == 400
    named = {"connector": ["good", "bad"], "confirm": "delete 2"}
    assert "Give a reason" in text(client.post("/ui/bulk/delete", {**named, "reason": " "}, headers=FRAGMENT))
    assert many.asked == []
    client.post("/ui/bulk/delete", {**named, "reason": "moved to another cluster"}, headers=FRAGMENT)
    assert [asked[:2] for asked in many.asked] == [("delete", "good"), ("delete", "bad")]
    reasons = AuditEntry.objects.filter(outcome="done").values_list("message", flat=True)
    assert list(reasons) == ["moved to another cluster"] * 2


def test_what_takes_something_away_from_many_asks_in_numbers(client: Client, many: FakeLeader) -> None:
    asked = text(client.get("/ui/bulk/stop?count=2&tasks=5", headers=FRAGMENT))
    assert "Stop 2 connectors?" in asked
    assert "This affects 5 tasks." in asked
    assert "to confirm" not in asked
    asked = text(client.get("/ui/bulk/delete?count=1200&tasks=", headers=FRAGMENT))
    assert "Delete 1,200 connectors?" in asked
    assert "all of their tasks" in asked
    assert "Type <b>delete 1200</b> to confirm" in asked
    assert 'name="reason"' in asked
    assert client.get("/ui/bulk/stop?count=x", headers=FRAGMENT).status_code == 200
    assert many.asked == []


def test_nothing_selected_and_get_are_refused(client: Client, many: FakeLeader) -> None:
    assert "No connector is selected" in text(client.post("/ui/bulk/pause", {}, headers=FRAGMENT))
    assert client.get("/ui/bulk/pause").status_code == 405
    strict = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    assert strict.post("/ui/bulk/pause", {"connector": "good"}).status_code == 403
    many.refusal = Refusal(503, "No leader <now>")
    assert "No leader &lt;now&gt;" in text(client.post("/ui/bulk/pause", {"connector": "good"}, headers=FRAGMENT))


def test_the_list_as_csv_holds_every_page_and_no_formula(client: Client, many: FakeLeader) -> None:
    many.config.config(connector("=1+1"))
    many.project()
    response = client.get("/ui/connectors.csv?sort=name")
    assert response["content-type"].startswith("text/csv")
    lines = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert [line["name"] for line in lines] == ["'=1+1", "bad", "good", "quiet"]
    assert (lines[1]["health"], lines[1]["reason"]) == ("UNHEALTHY", "The connector itself has failed")
    found = client.get("/ui/connectors.csv?q=oo").content.decode()
    assert [line["name"] for line in csv.DictReader(io.StringIO(found))] == ["good"]


def test_the_list_is_filtered_by_class(client: Client, many: FakeLeader) -> None:
    Connector.objects.filter(name="good").update(class_name="org.example.Other")
    page = text(client.get("/ui/connectors?plugin=org.example.Other"))
    assert names_of(client.get("/ui/connectors?plugin=org.example.Other")) == ["good"]
    assert '<option value="org.example.Other" selected>Other</option>' in page


def test_the_palette_finds_connectors(client: Client, many: FakeLeader) -> None:
    found = text(client.get("/ui/find?q=oo", headers=FRAGMENT))
    assert re.findall(r'role="option" id="found-1" tabindex="-1" href="([^"]+)"', found) == ["/ui/connectors/good"]
    assert client.get("/ui/find?q=%00").status_code == 200


def _found(client: Client, query: str, **headers: Any) -> list[str]:
    page = text(client.get(f"/ui/find?q={query}", headers={**FRAGMENT, **headers}))
    return re.findall(r'role="option" id="found-\d+" tabindex="-1" href="([^"]+)"', page)


def test_the_palette_acts_and_asks_first(client: Client, many: FakeLeader) -> None:
    assert _found(client, "pause oo") == ["/ui/connectors/good/actions/pause"]
    assert "/ui/connectors/good/fence" in _found(client, "FENCE goo")
    assert _found(client, "restart goo") == [
        f"/ui/connectors/good/actions/{act}" for act in ("restart", "restart-failed")
    ]
    page = text(client.get("/ui/connectors/good/actions/pause"))
    assert "Tasks commit what they have and pause." in page
    assert '<a class="button" data-close autofocus href="/ui/connectors/good">Cancel</a>' in page
    assert "of 2 tasks running" in page
    assert [name for name, _, _ in many.asked if name == "pause"] == [], "nothing was done yet"
    assert client.post("/ui/connectors/good/actions/pause")["location"] == "/ui/connectors/good"
    assert [on for name, on, _ in many.asked if name == "pause"] == ["good"]
    assert client.get("/ui/connectors/nobody/actions/pause").status_code == 404


def test_the_palette_finds_pages_and_documents(client: Client, many: FakeLeader) -> None:
    assert "/ui/plugins" in _found(client, "install a pl")
    assert "/ui/new" in _found(client, "new con")
    assert _found(client, "the guarantee")[-1].startswith("/ui/docs/")
    assert _found(client, "no such heading") == []


def test_connectors_are_found_by_their_topics(client: Client, many: FakeLeader) -> None:
    ActiveTopic.objects.create(connector="good", topic="payments.eu", since_ms=5)
    assert _found(client, "payments") == ["/ui/connectors/good", "/ui/topics/payments.eu"]
    assert names_of(client.get("/ui/connectors?q=nts.e")) == ["good"]


def test_hanging_transactions_that_nobody_ended_stand_on_the_overview(client: Client, many: FakeLeader) -> None:
    assert 'id="hanging"' not in text(client.get("/ui/"))
    HangingTransaction.objects.create(
        cluster="one:9092", topic="t", partition=3, producer_id=8, start_offset=120, last_ms=now_ms(),
        connectors='["good"]', why_not="Grant Alter on the Cluster",
    )  # fmt: skip
    page = text(client.get("/ui/"))
    told = page[page.index('id="hanging"') :]
    told = re.sub(r"\s+", " ", told[: told.index("</section>")])
    assert "<code>t-3</code> from offset 120 on, producer id 8" in told
    assert "Grant Alter on the Cluster" in told
