"""A connector that runs and moves nothing is told apart from one that is often quiet, and from one that is new."""

import pytest

from ringfence.fencing.topics.status import State
from ringfence.projection.health import refresh
from ringfence.projection.models import Connector, Minute, Task
from ringfence.projection.stalls import LEAST_MINUTES, LEAST_MS, Stalls, limit_ms, usual_pause
from tests.support.projections import progress, project, running
from tests.support.topics import Topic, connector_status

MINUTE = 60_000


def history(*minutes: int, state: str = "RUNNING", records: int = 5) -> None:
    Minute.objects.filter(connector="c", minute__in=minutes).delete()
    Minute.objects.bulk_create(
        Minute(connector="c", task=0, minute=minute, records=records, state=state) for minute in minutes
    )


def health() -> str:
    return Connector.objects.get().health


@pytest.mark.parametrize(
    ("active", "disturbed", "pause"),
    [
        (range(LEAST_MINUTES), (), 1),
        (range(LEAST_MINUTES - 1), (), 0),
        ([*range(20), 80, 81], (), 61),
        ([*range(20), 80, 81], (50,), 1),
        ([*range(0, 600, 60)], (), 60),
    ],
)
def test_the_longest_pause_in_which_it_ran_is_usual(active: list[int], disturbed: list[int], pause: int) -> None:
    assert usual_pause(list(active), disturbed) == pause


def test_a_short_silence_is_never_a_stall() -> None:
    assert limit_ms(1) == LEAST_MS
    assert limit_ms(60) == 180 * MINUTE


def test_one_without_tasks_is_complete_if_it_has_committed() -> None:
    running(tasks=0)
    refresh({"c"})
    assert health() == "UNHEALTHY"
    Connector.objects.update(last_commit_ms=1)
    refresh({"c"})
    assert health() == "COMPLETE"


def test_one_that_moves_nothing_for_longer_than_usual_has_stalled_until_it_moves_again() -> None:
    running(tasks=1)
    history(*range(30))
    Task.objects.update(last_poll_ms=30 * MINUTE)
    stalls = Stalls()
    assert stalls.look(30 * MINUTE + LEAST_MS) == set()
    assert stalls.look(30 * MINUTE + LEAST_MS + 1) == {"c"}
    assert (health(), Connector.objects.get().usual_pause) == ("STALLED", 1)
    assert stalls.look(60 * MINUTE) == set()
    refresh({"c"})
    assert health() == "STALLED"  # a status that says nothing new does not hide it
    events = Topic()
    progress(events, 60 * MINUTE, 10, last_poll_ms=60 * MINUTE)
    project("events", events)
    assert health() == "HEALTHY"
    assert stalls.look(60 * MINUTE + LEAST_MS) == set()
    assert stalls.look(70 * MINUTE) == set()  # by now a pause of half an hour has been seen
    assert stalls.look(60 * MINUTE + limit_ms(31) + 1) == {"c"}


def test_one_that_often_pauses_or_is_new_has_not_stalled() -> None:
    running(tasks=1)
    history(*range(0, 1200, 60))
    Task.objects.update(last_poll_ms=1140 * MINUTE)
    assert Stalls().look(1200 * MINUTE) == set()
    assert Stalls().look(1140 * MINUTE + 180 * MINUTE + 1) == {"c"}
    Connector.objects.update(stalled=False, health="HEALTHY")
    Minute.objects.all().delete()
    assert Stalls().look(9999 * MINUTE) == set()


def test_a_start_counts_as_a_move_and_rest_is_no_stall() -> None:
    running(tasks=1)
    history(*range(30))
    Task.objects.update(last_poll_ms=30 * MINUTE, since_ms=60 * MINUTE)
    assert Stalls().look(62 * MINUTE) == set()
    Connector.objects.update(health="PAUSED")
    assert Stalls().look(99 * MINUTE) == set()


def test_one_that_fails_is_no_longer_stalled() -> None:
    running(tasks=1)
    history(*range(30))
    Task.objects.update(last_poll_ms=30 * MINUTE)
    assert Stalls().look(60 * MINUTE) == {"c"}
    status = Topic()
    status.status(connector_status("c", State.FAILED))
    project("status", status, "id-2")
    assert (health(), Connector.objects.get().stalled) == ("UNHEALTHY", False)
