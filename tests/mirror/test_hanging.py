"""Hanging transactions in the database: what is left, a count for each connector, and an audit entry for each end."""

from ringfence.audit.models import AuditEntry
from ringfence.projection.models import Connector, Event, HangingTransaction
from tests.support.projections import project, running
from tests.support.topics import Topic

LEFT = {
    "cluster": "one:9092",
    "topic": "t",
    "partition": 3,
    "producer_id": 8,
    "epoch": 1,
    "start_offset": 120,
    "last_ms": 5,
    "transactional_id": "",
    "connectors": ["c"],
    "why_not": "Nobody tells whose it is",
}


def test_the_newest_list_stands_and_an_end_is_counted_and_audited_once() -> None:
    running()
    events = Topic()
    events.event(type="hanging", stage="found", hanging=[LEFT, {**LEFT, "producer_id": 9}])
    project("events", events)
    assert [row.producer_id for row in HangingTransaction.objects.order_by("producer_id")] == [8, 9]
    events.event(
        type="hanging", connector="c", stage="ended", by="task", topic="t", partition=3, producer_id=8, message="t-3"
    )
    project("events", events)
    project("events", events)
    assert [row.producer_id for row in HangingTransaction.objects.all()] == [9]
    assert Connector.objects.get(name="c").hanging_ended_total == 1
    entry = AuditEntry.objects.get(connector="c")
    assert (entry.action, entry.user) == ("end a hanging transaction", "ringfence")
    assert (entry.via, entry.message) == ("task", "t-3")
    assert [event.summary for event in Event.objects.all()] == ["Hanging transaction ended by the task. t-3"]
    events.event(type="hanging", stage="found", hanging=[])
    project("events", events)
    assert not HangingTransaction.objects.exists()
