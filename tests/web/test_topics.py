"""The data browser: the list, a topic's form, records in three views, origins, and an audit entry for each look."""

import re
import time

import pytest
from django.test import Client

from ringfence.audit.models import AuditEntry
from ringfence.projection.models import ActiveTopic
from ringfence.requests.request import Refusal
from ringfence.web.topics.live_tail import LONGEST_SECONDS
from ringfence.web.topics.record_display import RecordDisplay, differences, fill_columns, find_columns, show_record
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

FRAGMENT = {"hx-request": "true"}


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", pin="hunter22"))
    leader.start("flights")
    ActiveTopic.objects.create(connector="flights", topic="t", since_ms=5)
    return leader


def test_the_list_names_topics_with_their_writers(client: Client, flights: FakeLeader) -> None:
    page = text(client.get("/ui/topics"))
    assert 'href="/ui/topics/orders"' in page
    assert 'href="/ui/connectors/flights"' in page
    assert "1,234" in page
    assert "connect-configs" not in page
    assert "connect-configs" in text(client.get("/ui/topics?internal=true", headers=FRAGMENT))
    assert "No topic matches" in text(client.get("/ui/topics?search=nothing"))


def test_a_topic_page_asks_for_no_record(client: Client, flights: FakeLeader) -> None:
    page = text(client.get("/ui/topics/t?offset=12&partition=1"))
    assert 'value="12"' in page
    assert "Read records" in page
    assert "records" not in [kind for kind, _, _ in flights.asked]
    assert client.get("/ui/topics/nowhere").status_code == 404


def test_records_are_marked_and_escaped_in_all_views(client: Client, flights: FakeLeader) -> None:
    sent = {"isolation": "read_uncommitted", "from": "latest"}
    page = text(client.post("/ui/topics/t/records", sent, headers=FRAGMENT))
    for shown in ("Behind an open one", "Open", "Aborted", "Committed", "&lt;b&gt;", "g-team-a-0", "Older records"):
        assert shown in page
    assert "<b>" not in page.replace("<b>1", "")
    as_json = text(client.post("/ui/topics/t/records", {**sent, "view": "json"}, headers=FRAGMENT))
    assert "&quot;partition&quot;: 0" in as_json
    diff = text(client.post("/ui/topics/t/records", {**sent, "view": "diff"}, headers=FRAGMENT))
    assert "value.m[0]" in diff
    assert "absent" in diff
    entry = AuditEntry.objects.order_by("pk").last()
    assert entry is not None
    assert (entry.action, entry.connector) == ("view-data", "flights")
    (_, _, asked), *_ = [each for each in flights.asked if each[0] == "records"]
    assert asked["writers"][0]["secret"] == ["pin"]


def test_a_refusal_stands_where_the_records_would(client: Client, flights: FakeLeader) -> None:
    answer = client.post("/ui/topics/t/records", {"offset": "x"}, headers=FRAGMENT)
    assert answer.status_code == 400
    assert "offset must be" in text(answer)


def test_an_origin_names_connector_offset_and_transaction(client: Client, flights: FakeLeader) -> None:
    page = text(client.post("/ui/topics/t/origin", {"partition": "0", "offset": "9"}, headers=FRAGMENT))
    for shown in ("/ui/connectors/team-a", "seqno", "Exact", "producer 7, epoch 3", "Ongoing now"):
        assert shown in page


def test_differences_follow_each_key_and_leave_out_records_without_one() -> None:
    def record(offset: int, key: str | None, value: str) -> object:
        shown = {"kind": "null" if key is None else "string", "text": key or "null", "size": 1, "cut": False}
        body = {"kind": "JSON", "text": value, "size": 1, "cut": False}
        return show_record(
            {
                "partition": 0,
                "offset": offset,
                "timestamp_ms": offset,
                "seen": "committed",
                "key": {**shown, "schema": "", "problem": ""},
                "value": {**body, "schema": "", "problem": ""},
                "headers": [],
            }
        )

    records = [record(1, "a", '{"x": {"y": 1}}'), record(2, None, "1"), record(3, "a", '{"x": {"y": 2}, "z": []}')]
    (found,) = differences(records)  # type: ignore[arg-type]
    assert [(each.path, each.before, each.after) for each in found.changes] == [
        ("value.x.y", "1", "2"),
        ("value.z", None, "[]"),
    ]
    assert (found.before.offset, found.after.offset) == (1, 3)


def test_a_tail_leaves_one_entry_and_goes_on_with_the_mark_of_its_answer(client: Client, flights: FakeLeader) -> None:
    begun = text(client.post("/ui/topics/t/tail", {"isolation": "read_uncommitted", "key": "k1"}, headers=FRAGMENT))
    assert "Following" in begun
    assert 'id="tail-rows"' in begun
    entries = AuditEntry.objects.count()
    entry = AuditEntry.objects.order_by("pk").last()
    assert entry is not None
    assert entry.message == "followed topic t: from latest, as read_uncommitted, key"
    path = "/ui/topics/t/tail/next"
    more = text(client.post(path, {"mark": _mark(begun)}, headers=FRAGMENT))
    assert 'hx-swap-oob="afterbegin:#tail-rows"' in more
    asked = [each for kind, _, each in flights.asked if kind == "records"][-1]
    assert (asked["start"]["from"], asked["start"]["cursor"], asked["key"]) == ("earliest", {"0": 10}, "k1")
    assert asked["committed_only"] is False
    assert AuditEntry.objects.count() == entries, "what was begun is in the trail"
    flights.refusal = Refusal(503, "Kafka does not answer.", retry=True)
    away = text(client.post(path, {"mark": _mark(more)}, headers=FRAGMENT))
    assert "Kafka does not answer. It continues from here automatically." in away
    assert _mark(away) == _mark(more)


def test_a_mark_is_good_for_its_topic_its_reader_and_fifteen_minutes(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    ActiveTopic.objects.create(connector="flights", topic="u", since_ms=5)
    mark = _mark(text(client.post("/ui/topics/t/tail", {}, headers=FRAGMENT)))
    read = len(flights.asked)
    for topic, given in (("u", mark), ("t", mark[:-1] + "x"), ("t", "")):
        answer = client.post(f"/ui/topics/{topic}/tail/next", {"mark": given}, headers=FRAGMENT)
        assert answer.status_code == 400, (topic, given)
    later = time.time() + LONGEST_SECONDS + 1
    monkeypatch.setattr("ringfence.web.topics.live_tail.time.time", lambda: later)
    page = text(client.post("/ui/topics/t/tail/next", {"mark": mark}, headers=FRAGMENT))
    assert "15 minutes" in page
    assert len(flights.asked) == read, "nothing was read"


def _mark(page: str) -> str:
    found = re.search(r'name="mark" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


def test_columns_come_from_the_fields_that_most_values_have() -> None:
    def value(text: str, kind: str = "JSON") -> RecordDisplay:
        shown = {"kind": kind, "text": text, "size": len(text), "cut": False, "schema": "", "problem": ""}
        record = {"partition": 0, "offset": 1, "timestamp_ms": 1, "seen": "committed", "key": shown, "headers": []}
        return show_record({**record, "value": shown})

    rows = [
        value('{"id": 1, "name": "Ann"}'),
        value('{"name": "Bob", "id": 2, "odd": [1]}'),
        value("no object", "string"),
    ]
    assert find_columns(rows) == ["id", "name"]
    assert [fill_columns(each, ["id", "name"]) for each in rows] == [
        [("id", "1"), ("name", "Ann")],
        [("id", "2"), ("name", "Bob")],
        [("id", "no object"), ("name", "")],
    ]
    assert find_columns([value("a\nb", "string"), value('{"x": 1}')]) == []
    assert value("a\nb", "string").value_line == "a b"
    assert value('{\n  "x": 1\n}').value_line == '{"x": 1}'
    assert rows[0].size == 48
