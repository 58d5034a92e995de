"""A record of the config topic that no leader wrote: one incident, although each new leader reports it again."""

from ringfence.alerts import evaluation
from ringfence.alerts.models import RECENT_MS, Incident, Rule
from tests.support.projections import project
from tests.support.topics import Topic

NOW = 1_700_000_000_000


def report(events: Topic, offset: int, connector: str, time_ms: int) -> None:
    key = f"connector-{connector}" if connector else "session-key"
    message = f"Topic configs, offset {offset}, key {key}: no leader of this cluster wrote that record"
    events.event(type="foreign", connector=connector, offset=offset, key=key, message=message, time_ms=time_ms)
    project("events", events)


def incidents() -> list[tuple[str, str, int]]:
    return [(one.subject, one.connector, one.failures) for one in Incident.objects.filter(resolved_ms=0).order_by("pk")]


def test_each_raises_one_alert_and_none_when_another_leader_reports_it_again() -> None:
    Rule.objects.create(name="foreign", kind="foreign-record", seconds=0)
    events = Topic()
    report(events, 7, "c", NOW)
    evaluation.evaluate(NOW + 1000)
    (incident,) = Incident.objects.all()
    assert (incident.subject, incident.connector) == ("config records of c", "c")
    assert "offset 7, key connector-c" in incident.summary
    report(events, 9, "", NOW + 2000)
    report(events, 8, "c", NOW + 3000)
    evaluation.evaluate(NOW + 4000)
    assert incidents() == [("config records of c", "c", 2), ("config records", "", 1)]
    incident.refresh_from_db()
    assert "offset 8" in incident.summary
    later = NOW + 4000 + RECENT_MS
    report(events, 7, "c", later)  # as a new leader does
    evaluation.evaluate(later)
    assert incidents() == []
    report(events, 11, "c", later)
    evaluation.evaluate(later)
    assert incidents() == [("config records of c", "c", 1)]
