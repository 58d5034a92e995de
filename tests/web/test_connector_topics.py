"""The Topics tab: records of its own topics only, for those who may, decoded and marked, with an audit entry."""

import base64
import html
import json
from typing import Any

import pytest
from django.test import Client

from ringfence.access.principal import ROLES, Principal, Right, Verb
from ringfence.audit.models import AuditEntry
from ringfence.consumer_commands import CLIENT_FILE
from ringfence.dispatch import Refusal
from ringfence.projection.models import ActiveTopic, ClusterInfo
from ringfence.web.connector.record_text import decode
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

FRAGMENT = {"hx-request": "true"}
TAB = "/ui/connectors/flights/topics"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def record(offset: int, seen: str, value: bytes | None, size: int | None = None) -> dict[str, Any]:
    blank = {"partition": 0, "timestamp_ms": 5, "key": None, "key_size": -1, "headers": [["h", b64(b"\x00\xff"), 2]]}
    whole = -1 if value is None else len(value) if size is None else size
    shown = None if value is None else b64(value)
    return {**blank, "offset": offset, "seen": seen, "value": shown, "value_size": whole}


@pytest.fixture
def flights(leader: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", pin="hunter22"))
    leader.start("flights")
    ActiveTopic.objects.create(connector="flights", topic="t", since_ms=5)

    def last_records(topic: str, config: dict[str, str], committed_only: bool) -> dict[str, Any]:
        leader.asked.append(("last_records", topic, {"committed_only": committed_only}))
        if leader.refusal is not None:
            raise leader.refusal
        found = [
            record(7, "open", b'{"a": {"b": 1}}'),
            record(6, "aborted", "<b>ü</b> hunter22".encode()),
            record(5, "committed", None),
        ]
        parts = [{"partition": 0, "first": 0, "stable": 6, "end": 8}]
        return {"records": found, "partitions": parts, "partition_count": 1, "complete": True}

    monkeypatch.setattr(leader, "last_records", last_records, raising=False)
    return leader


def look(client: Client, **sent: str) -> Any:
    return client.post(f"{TAB}/records", {"topic": "t", "level": "read_uncommitted", **sent}, headers=FRAGMENT)


def test_the_tab_lists_topics_and_asks_no_broker(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(TAB))
    assert 'name="topic" value="t"' in page
    assert flights.asked == []


def test_records_are_marked_decoded_and_harmless(client: Client, flights: FakeLeader) -> None:
    page = text(look(client))
    for shown in ("Aborted", "Open", "Committed", "&lt;b&gt;ü&lt;/b&gt; [hidden]", "&quot;b&quot;: 1", "00 ff", "null"):
        assert shown in page
    assert "<b>ü" not in page
    assert "hunter22" not in page
    assert "the last stable offset (LSO) is behind the end" in page
    assert flights.asked == [("last_records", "t", {"committed_only": False})]
    look(client, level="read_committed")
    assert flights.asked[-1] == ("last_records", "t", {"committed_only": True})
    entry = AuditEntry.objects.order_by("pk").last()
    assert entry is not None
    assert (entry.action, entry.message) == ("view-data", "looked at the last records of topic t as read_committed")
    assert "hunter" not in json.dumps([entry.before, entry.after, entry.message])


def test_only_topics_of_the_connector_can_be_looked_into(client: Client, flights: FakeLeader) -> None:
    ActiveTopic.objects.create(connector="other", topic="secret", since_ms=5)
    for wrong in ({"topic": "secret"}, {"topic": "connect-configs"}, {"topic": ""}, {"level": "all"}):
        assert look(client, **wrong).status_code == 400
    assert flights.asked == []


def test_records_of_topics_outside_of_the_grant_are_not_shown(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the connector has written there, when somebody else had saved it."""
    from ringfence import middleware as middleware

    limited = Principal("ann", "session", (Right(ROLES["editor"], "*", ("u.*",)),))
    monkeypatch.setattr(middleware, "identify", lambda request: limited)
    answer = look(client)
    assert answer.status_code == 403
    assert "You are not granted topic t" in text(answer)
    assert flights.asked == []


def test_a_worker_that_cannot_read_says_why(client: Client, flights: FakeLeader) -> None:
    flights.refusal = Refusal(500, "Topic t cannot be read: not authorised")
    answer = look(client)
    assert answer.status_code == 500
    assert "not authorised" in text(answer)


def test_who_may_read_a_configuration_need_not_see_data(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence import middleware as middleware

    viewer = Principal("eve", "session", (Right(ROLES["viewer"], "*"),))
    monkeypatch.setattr(middleware, "identify", lambda request: viewer)
    assert Verb.VIEW_DATA not in ROLES["viewer"]
    assert "You need the permission <code>view-data</code>" in text(client.get(TAB))
    refused = look(client)
    assert refused.status_code == 403
    assert "`view-data`" in text(refused)
    assert flights.asked == []


@pytest.mark.parametrize(
    ("data", "size", "kind", "shown"),
    [
        (b"plain", 5, "text", "plain"),
        ("ü".encode()[:1], 9, "text", ""),
        (b"ab\x00", 3, "hex", "61 62 00"),
        ("a\u202eb".encode(), 5, "hex", "61 e2 80 ae 62"),
        (b"\x00\x00\x00\x00\x07abc", 8, "hex", "schema id 7: 00 00 00 00 07 61 62 63"),
        (b'{"a":"\\u202e"}', 14, "JSON", '{"a":"\\u202e"}'),
        (b"[1,2]", 5, "JSON", "[\n  1,\n  2\n]"),
        (b"[1,2", 4, "text", "[1,2"),
        (b'{"a":1}', 900, "text", '{"a":1}'),
        (b"", 0, "empty", "empty"),
    ],
)
def test_bytes_are_shown_as_what_they_are(data: bytes, size: int, kind: str, shown: str) -> None:
    found = decode(b64(data), size)
    assert (found.kind, found.text) == (kind, shown)
    assert found.cut is (len(data) < size)


def test_kafkas_address_and_commands_to_copy_are_on_the_tab(client: Client, flights: FakeLeader) -> None:
    assert "Read them as a consumer" not in text(client.get(TAB, headers=FRAGMENT))
    ClusterInfo.objects.update_or_create(id=1, defaults={"kafka_bootstrap": "k:9092", "kafka_protocol": "SASL_SSL"})
    page = text(client.get(TAB, headers=FRAGMENT))
    assert "Kafka is at" in page
    assert "kcat -C -b k:9092 -t t -o beginning -X isolation.level=read_committed -F client.properties" in page
    assert "kafka-console-consumer.sh --bootstrap-server k:9092 --topic t" in page
    flights.config.config(connector("flights", topic="t", **{"producer.override.bootstrap.servers": "own:1"}))
    flights.project()
    assert "-b own:1" in text(client.get(TAB, headers=FRAGMENT))


def test_kafkas_address_has_a_page_of_its_own(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No worker has reported Kafka's address yet" in html.unescape(text(client.get("/ui/kafka")))
    cluster = {"kafka_bootstrap": "k:9092", "kafka_protocol": "SASL_SSL", "kafka_cluster_id": "abc-1"}
    ClusterInfo.objects.update_or_create(id=1, defaults=cluster)
    page = text(client.get("/ui/kafka"))
    assert "bootstrap.servers=k:9092\nsecurity.protocol=SASL_SSL" in page
    assert "Ask the people who run Kafka for one" in page
    assert "abc-1" in page
    assert "ringfence topics tail t" in page
    assert "kcctl config set-context ringfence --cluster=http://localhost" in page
    monkeypatch.setenv(CLIENT_FILE, "/data/kafka-client.properties")
    assert "--consumer.config /data/kafka-client.properties" in text(client.get("/ui/kafka"))
    flights.config.config(connector("flights", topic="t", **{"producer.override.bootstrap.servers": "own:1"}))
    flights.project()
    assert "topics tail" not in text(client.get("/ui/kafka")), "its topics are on another cluster"
