"""The head of every page says what does not answer, and no state is shown as present that is past."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest
from django.db.models.functions import Now
from django.test import Client

from ringfence import dispatch
from ringfence.engine.leader.commands import Pause
from ringfence.engine.questions import Preflight
from ringfence.fencing.errors import Retriable
from ringfence.heartbeats.cluster_health import SILENT_S
from ringfence.heartbeats.cluster_view import look, read
from ringfence.heartbeats.heartbeat_writer import FreshnessWatch, HealthProbe, HeartbeatWriter, Positions, write
from ringfence.heartbeats.models import Freshness, Heartbeat
from ringfence.projection.models import Task
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

PAGES = (
    "/ui/", "/ui/connectors", "/ui/connectors/flights", "/ui/connectors/flights/tasks",
    "/ui/connectors/flights/offsets", "/ui/workers", "/ui/incidents", "/ui/new", "/ui/transactions", "/ui/connectors",
)  # fmt: skip
ALWAYS = 1.0 - SILENT_S
"""As far in the future as counts: a slow machine does not make it an old one."""
_real_command, _real_ask = dispatch.command, dispatch.ask


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each page looks anew, and Redis answers."""
    monkeypatch.setattr("ringfence.heartbeats.cluster_view.KEPT_SECONDS", 0.0)
    monkeypatch.setattr("ringfence.heartbeats.cluster_view.probe_redis", lambda: "")
    look._redis = cast(HealthProbe, SimpleNamespace(error=""))
    look.forget()
    yield
    look._redis = None


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights"), connector("other"))
    leader.start("flights", tasks=2)
    leader.start("other")
    return leader


def beats(worker: str, age_s: float = 0.0, **more: object) -> None:
    at = Now() - timedelta(seconds=age_s)
    Heartbeat.objects.create(worker=worker, incarnation="i", began_at=at, beat_at=at, led_at=at, **more)


def test_while_all_is_well_nothing_is_said(client: Client, flights: FakeLeader) -> None:
    beats("worker-1", ALWAYS)
    write(ALWAYS)
    for page in PAGES:
        assert "data-problem" not in text(client.get(page)), page
    assert "Healthy" in text(client.get("/ui/connectors/flights"))


def test_no_worker_reports(client: Client, flights: FakeLeader) -> None:
    beats("worker-1", 30)
    write(30)
    for page in PAGES:
        shown = text(client.get(page))
        assert 'data-problem="no-worker"' in shown, page
        assert "as of" in shown, page
    page = text(client.get("/ui/connectors/flights"))
    assert "Unknown" in page
    assert "It was healthy when" in page
    assert "leads" not in page
    assert text(client.get("/ui/connectors?state=healthy")).count("data-row=") == 0
    assert text(client.get("/ui/connectors?state=unknown")).count("data-row=") == 2
    overview = text(client.get("/ui/"))
    assert "2 unknown" in overview
    assert "leads" not in overview
    assert ",UNKNOWN,It was healthy when" in text(client.get("/ui/connectors.csv"))


def test_api_command_line_and_metrics_say_what_the_pages_say(client: Client, flights: FakeLeader) -> None:
    beats("worker-1", 30)
    write(30)
    listed = client.get("/api/v1/connectors").json()["results"]
    assert {one["health"] for one in listed} == {"UNKNOWN"}
    assert client.get("/api/v1/connectors?health=HEALTHY").json()["results"] == []
    one = client.get("/api/v1/connectors/flights").json()
    assert (one["health"], one["reason"][:17]) == ("UNKNOWN", "It was healthy wh")
    told = text(client.get("/metrics"))
    assert 'ringfence_connector_health{connector="flights",health="unknown"} 1' in told


@pytest.mark.parametrize(("broken", "name"), [("kafka_error", "Kafka"), ("redis_error", "Redis")])
def test_a_worker_that_is_cut_off_is_named_on_every_page(
    client: Client, flights: FakeLeader, broken: str, name: str
) -> None:
    beats("worker-1", ALWAYS)
    beats("worker-2", ALWAYS, **{broken: "timed out"})
    write(ALWAYS)
    for page in PAGES:
        head = text(client.get(page))
        assert f'data-problem="no-{name.lower()}-worker-2"' in head, page
        assert "no-worker" not in head


def test_a_connector_on_a_silent_worker_is_unknown_and_another_is_not(client: Client, flights: FakeLeader) -> None:
    beats("worker-1", ALWAYS)
    beats("worker-2", 30)
    write(ALWAYS)
    Task.objects.filter(connector="flights").update(worker="worker-1")
    Task.objects.filter(connector="other").update(worker="worker-2")
    assert "Its worker does not report; it was healthy" in text(client.get("/ui/connectors/other"))
    assert 'data-problem="silent-worker-2"' in text(client.get("/ui/connectors/flights"))
    for name, count in (("healthy", 1), ("unknown", 1), ("attention", 1)):
        assert text(client.get(f"/ui/connectors?state={name}")).count("data-row=") == count, name


def test_what_nobody_would_carry_out_is_refused_at_once() -> None:
    beats("worker-1", 30)
    for refused in (lambda: _real_command(Pause("flights")), lambda: _real_ask(Preflight({}, java=False))):
        with pytest.raises(dispatch.Refusal) as raised:
            refused()
        assert raised.value.status == 503
        assert "No worker reports" in raised.value.message
        assert "Nothing was sent" in raised.value.message


class Ends:
    """An answer that is there."""

    def __init__(self, ends: Positions) -> None:
        self._ends = ends

    def is_answered(self) -> bool:
        return True

    def result(self) -> Positions:
        return self._ends


def test_the_projection_asks_again_where_no_broker_could_be_asked() -> None:
    now, asked = [100.0], list[float]()

    def ask() -> Ends:
        asked.append(now[0])
        if len(asked) == 1:
            raise Retriable("no broker answers")
        return Ends({("t", 0): 10})

    watch = FreshnessWatch(ask, lambda: now[0])
    watch.look({("t", 0): 10})
    for _ in range(40):
        now[0] += 1.0
        watch.look({("t", 0): 10})
    assert asked[0] == 100.0
    assert len(asked) > 1
    assert Freshness.objects.exists()


def test_the_projection_is_fresh_once_it_has_passed_the_ends_that_were_asked_for() -> None:
    now = [100.0]
    watch = FreshnessWatch(lambda: Ends({("t", 0): 10}), lambda: now[0])
    watch.look({("t", 0): 4})
    now[0] += 1.0
    watch.look({("t", 0): 9})
    assert not Freshness.objects.exists()
    now[0] += 4.0
    watch.look({("t", 0): 10})
    _, projected = read()
    assert projected is not None
    assert 4.9 < projected.age_s < 7  # as of when the ends were asked for
    now[0] += 1.0
    watch.look({("t", 0): 4})
    now[0] += 3.0
    Freshness.objects.all().delete()
    watch.look({("t", 0): 4})  # compaction took the last records: it reads all there is
    assert Freshness.objects.exists()


def test_a_worker_that_was_replaced_while_it_was_frozen_does_not_speak_for_its_namesake() -> None:
    probing = HealthProbe(lambda: "")
    frozen, newer = (HeartbeatWriter("worker-1", life, lambda: True, probing, probing) for life in ("old", "new"))
    frozen.begin()
    newer.begin()
    frozen.beat()
    frozen.end()
    assert Heartbeat.objects.values_list("incarnation", "ended").get() == ("new", False)
    newer.end()
    assert read()[0][0].ended
