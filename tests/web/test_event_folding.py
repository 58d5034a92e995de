"""A crash loop is one row; a round is told once; a forced fence is marked; generations are counted for people."""

from django.test import Client

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_records import CommitRecord
from ringfence.projection.models import Connector, Event, GenerationRow
from ringfence.web.connector.event_folding import fold, headline
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.projections import project
from tests.support.topics import Topic, connector, generation

STEPS = ("reading the config topic", "initialising", "reading source offsets", "starting the plugin", "running")


def crash_loop(events: Topic, attempts: int, error: str = "ValueError: no number") -> None:
    """As a task tells it that fails on the same record again and again."""
    for attempt in range(1, attempts + 1):
        for step, stage in enumerate((*STEPS, "failed")):
            message = error if stage == "failed" else ""
            told = {"generation": 2, "attempt": attempt, "stage": stage, "message": message}
            events.event(type="task", connector="c", task=0, time_ms=attempt * 10_000 + step, **told)


def test_a_crash_loop_is_one_row(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("c"))
    leader.start("c")
    events = Topic()
    crash_loop(events, 5)
    project("events", events)
    groups = fold(Event.objects.filter(connector="c").order_by("-time_ms", "-id"))
    assert [headline(group) for group in groups] == ["Task 0: failed 5 times in 5 attempts. no number"]
    timeline = text(client.get("/ui/connectors/c/timeline"))
    assert timeline.count('<span class="event-icon">') == 1
    assert "30 steps" in timeline
    tasks = text(client.get("/ui/connectors/c/tasks"))
    assert "attempts 1 to 5: 5 times failed" in tasks
    for address in ("/ui/", "/ui/connectors/c"):
        assert text(client.get(address)).count("no number") == 1, address


def test_attempts_with_another_error_stand_apart(leader: FakeLeader) -> None:
    events = Topic()
    crash_loop(events, 1)
    for step, stage in enumerate((*STEPS, "failed")):
        told = {
            "generation": 2,
            "attempt": 2,
            "stage": stage,
            "message": "OSError: no disk" if stage == "failed" else "",
        }
        events.event(type="task", connector="c", task=0, time_ms=20_000 + step, **told)
    for step, stage in enumerate(STEPS):
        told = {"generation": 2, "attempt": 3, "stage": stage, "message": ""}
        events.event(type="task", connector="c", task=0, time_ms=30_000 + step, **told)
    events.event(type="command", connector="c", kind="restart", outcome="done", time_ms=90_000)
    events.event(type="task", connector="c", task=0, attempt=9, stage="running", time_ms=91_000)
    project("events", events)
    assert [headline(group) for group in fold(Event.objects.order_by("-time_ms", "-id"))] == [
        "Task 0: running (attempt 9)",
        "Restarted",
        "Task 0: running (attempt 3)",
        "Task 0: failed (attempt 2). no disk",
        "Task 0: failed (attempt 1). no number",
    ]


def test_generations_are_counted_and_a_forced_fence_is_marked(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("c"), *generation("c", 1, 1))
    leader.project()
    leader.config.config(*generation("c", 1, len(leader.config.records)))
    forced = len(leader.config.records) - 2
    events = Topic()
    events.event(
        type="command", connector="c", kind="fence_now", outcome="done", offset=forced, user="ann", message="why"
    )
    project("events", events)
    leader.project()
    leader.config.config(CommitRecord(ConnectorName("c"), 1))
    leader.project()
    leader.project()
    rows = list(GenerationRow.objects.order_by("generation").values_list("number", "forced", "forced_by"))
    assert rows == [(1, False, ""), (2, True, "ann"), (3, False, "")]
    assert Connector.objects.get().generation_number == 3
    page = text(client.get("/ui/connectors/c/generations"))
    assert page.count('<span class="tag">forced</span>') == 1
    assert "ann: why" in page
    assert "Generation 3" in page


def test_a_round_says_each_thing_once(leader: FakeLeader) -> None:
    leader.config.config(connector("c"), *generation("c", 1, 1))
    leader.project()
    events = Topic()
    fenced = [{"id": "g-c-0", "producer_id": 1, "epoch": 2}]
    told = {"generation": 2, "stage": "done", "fenced": fenced, "ms": 98}
    for message in ("1 fenced in 0.099 s", "", "Ended what hung on t-0"):
        events.event(type="round", connector="c", message=message, **told)
    project("events", events)
    said = "Generation 1 started: 1 older transactional id fenced"
    assert list(Event.objects.order_by("id").values_list("summary", flat=True)) == [
        said,
        said,
        f"{said}. Ended what hung on t-0",
    ]


def test_a_round_is_one_row_and_tasks_that_are_made_ready_beside_it_another(leader: FakeLeader) -> None:
    """Of two generations, the newest first; a round that failed before it was done says so."""
    events = Topic()
    at = iter(range(10_000, 90_000, 1_000))

    def tell(kind: str, offset: int, stage: str, **more: object) -> None:
        events.event(type=kind, connector="c", generation=offset, stage=stage, time_ms=next(at), **more)

    for offset in (2, 5):
        tell("round", offset, "fencing")
        tell("task", offset, "reading the config topic", task=0, attempt=1)
        for stage in ("failed", "failed") if offset == 5 else ():
            tell("round", offset, stage)
        tell("round", offset, "done", ms=7)
        tell("task", offset, "running", task=0, attempt=1)
    project("events", events)
    assert [headline(group) for group in fold(Event.objects.order_by("-time_ms", "-id"))] == [
        "Task 0: running (attempt 1)",
        "Generation at offset 5 started: nothing older to fence (2 failed tries before)",
        "Task 0: running (attempt 1)",
        "Generation at offset 2 started: nothing older to fence",
    ]
