"""`/api/v1/…/incremental-snapshot`: what is asked for reaches the config topic once; progress; refusals."""

from typing import Any

import pytest
from django.test import Client

from ringfence.audit.models import AuditEntry
from ringfence.connectors.builtin.postgres.offsets import IncrementalState, QueuedTable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_records import decode
from ringfence.fencing.topics.config_records.connector import ConnectorRecord
from ringfence.fencing.topics.signals import KEPT, SignalsRecord
from tests.support.accounts import JSON
from tests.support.leader import FakeLeader

AT = "/api/v1/connectors/team-a/incremental-snapshot"


@pytest.fixture
def postgres(two_connectors: FakeLeader) -> FakeLeader:
    config = {"name": "team-a", "connector.class": "PostgresSource", "topic.prefix": "shop"}
    two_connectors.config.config(ConnectorRecord(ConnectorName("team-a"), config))
    two_connectors.project()
    return two_connectors


def signals(leader: FakeLeader) -> list[tuple[str, Any]]:
    """What the task is told."""
    found: list[SignalsRecord] = []
    for record in leader.config.records:
        if record.key is not None and record.key.startswith(b"signals-"):
            decoded = decode(record.key, record.value)
            assert isinstance(decoded, SignalsRecord)
            found.append(decoded)
    newest = found[-1].signals if found else ()
    assert newest is not None
    assert [one.number for one in newest] == sorted({one.number for one in newest})
    return [(one.kind, one.data["data-collections"]) for one in newest]


def post(client: Client, **body: object) -> Any:
    return client.post(AT, body, content_type=JSON)


def test_requests_reach_the_task_in_their_order_and_the_oldest_are_forgotten(
    client: Client, postgres: FakeLeader
) -> None:
    assert post(client, action="execute", tables=["public.orders"]).status_code == 202
    assert post(client, action="pause").status_code == 202
    assert client.delete(f"{AT}?table=public.orders").status_code == 202
    assert client.delete(AT).status_code == 202
    assert signals(postgres) == [
        ("execute-snapshot", ["public.orders"]),
        ("pause-snapshot", []),
        ("stop-snapshot", ["public.orders"]),
        ("stop-snapshot", []),
    ]
    for _ in range(KEPT):
        post(client, action="resume")
    assert signals(postgres) == [("resume-snapshot", [])] * KEPT
    entry = AuditEntry.objects.filter(connector="team-a", message__contains="execute public.orders").first()
    assert entry is not None
    assert client.delete("/connectors/team-a").status_code == 204
    assert [record.value for record in postgres.config.records if record.key == b"signals-team-a"][-1] is None


def test_progress_is_what_is_committed(client: Client, postgres: FakeLeader) -> None:
    empty = client.get(AT).json()
    assert (empty["tables"], empty["rows"], empty["percent"], empty["refusal"]) == ([], 0, None, "")
    queue = (QueuedTable(7, "public.orders", 900), QueuedTable(8, "public.lines", 50))
    state = IncrementalState(queue, True, ("900",), ("300",), 300, 340, note="To be read: public.orders.")
    postgres.offsets.offset("team-a", {"server": "shop", "snapshot": "incremental"}, dict(state.as_offset()))
    postgres.project()
    found = client.get(AT).json()
    assert found["tables"][0] == {"table": "public.orders", "rows_estimated": 900}
    assert (found["table_rows"], found["rows"], found["paused"]) == (300, 340, False)
    assert found["note"] == "To be read: public.orders."
    assert found["percent"] == 34, "340 of 990"
    unknown = IncrementalState((QueuedTable(7, "public.orders", 0),), True, ("900",), ("300",), 300, 300)
    postgres.offsets.offset("team-a", {"server": "shop", "snapshot": "incremental"}, dict(unknown.as_offset()))
    postgres.project()
    assert client.get(AT).json()["percent"] is None, "the table was never analyzed"


def test_nothing_is_asked_for_beside_a_state_that_cannot_be_read(client: Client, postgres: FakeLeader) -> None:
    postgres.offsets.offset("team-a", {"server": "shop", "snapshot": "incremental"}, {"queue": 7})
    postgres.project()
    assert "Delete it: stop the connector" in client.get(AT).json()["refusal"]
    refused = post(client, action="execute", tables=["t"])
    assert (refused.status_code, "Delete it: stop the connector" in refused.json()["detail"]) == (409, True)
    assert signals(postgres) == []


def test_what_cannot_be_done_is_refused(client: Client, postgres: FakeLeader) -> None:
    for body, words in (
        ({"action": "execute"}, "must name the tables"),
        ({"action": "execute", "tables": ["("]}, "not a regular expression"),
        ({"action": "execute", "tables": "t"}, "must be a list"),
        ({"action": "pause", "tables": ["t"]}, "leave tables out"),
        ({"action": "stop"}, "DELETE stops"),
        ({"action": "pause", "why": "x"}, "Unknown field"),
    ):
        refused = post(client, **body)
        assert refused.status_code == 400
        assert words in refused.json()["detail"]
    other = client.get("/api/v1/connectors/other/incremental-snapshot")
    assert (other.status_code, "only PostgresSource" in other.json()["detail"]) == (400, True)
    client.put("/connectors/team-a/stop")
    refused = post(client, action="pause")
    assert (refused.status_code, "Resume it first" in refused.json()["detail"]) == (409, True)
    assert signals(postgres) == []
