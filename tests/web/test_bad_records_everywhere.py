"""Dead letters and skipped records: overview, list, head, API, metrics and alerts say the same numbers."""

import time

from django.test import Client

from ringfence.alerts.conditions import Kind, RuleCondition, evaluate_rules
from ringfence.alerts.evaluation import read_snapshot
from ringfence.fencing.offsets.record_counts import AttemptCounts, RecordCounts
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.projections import project
from tests.support.topics import Topic, connector

SAID = "2 dead letters, 1 record skipped"


def test_two_dead_letters_and_a_skipped_record(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("flights"))
    leader.start("flights")
    assert SAID not in text(client.get("/ui/connectors/flights"))
    now_ms, offsets = time.time_ns() // 1_000_000, Topic()
    counts = AttemptCounts(0, 3, 1, RecordCounts(5, 1, 2))
    offsets.offset("flights", {"file": "x"}, {"at": 1}, counts, at=now_ms)
    project("offsets", offsets)

    overview, listed, head = (text(client.get(f"/ui/{page}")) for page in ("", "connectors", "connectors/flights"))
    for page in (overview, listed, head):
        assert SAID in page
        assert "Degraded" in page
    api = client.get("/api/v1/connectors/flights").json()
    assert (api["health"], api["reason"]) == ("DEGRADED", f"{SAID} in the last hour")
    metrics = client.get("/metrics").content.decode().splitlines()
    assert 'ringfence_connector_dead_letters_total{connector="flights"} 2' in metrics
    assert 'ringfence_connector_skipped_records_total{connector="flights"} 1' in metrics
    rule, soon_ms = RuleCondition(1, Kind.BAD_RECORDS, "fl*", 0), time.time_ns() // 1_000_000 + 1000
    (found,) = evaluate_rules([rule], read_snapshot([Kind.BAD_RECORDS], soon_ms, 0)).values()
    assert found.summary.endswith("3 records in the last hour: 2 went to its dead letter queue, 1 was skipped")
