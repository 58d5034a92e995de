"""What follows from heartbeats: who is alive, what is stale, what commands are refused for. Pure."""

from typing import Any

import pytest

from ringfence.heartbeats.cluster_health import ProjectionAge, Vitals, WorkerHeartbeat, assess
from ringfence.heartbeats.heartbeat_writer import HealthProbe

NOW_MS = 1_800_000_000_000
FRESH = ProjectionAge(1.0, NOW_MS - 1000)


def beat(worker: str = "worker-1", age_s: float = 1.0, *, leads: bool = True, **more: Any) -> WorkerHeartbeat:
    told: dict[str, Any] = {"led_age_s": age_s if leads else None, "began_age_s": 500.0, **more}
    return WorkerHeartbeat(worker, f"{worker}-life", age_s, at_ms=NOW_MS - int(age_s * 1000), **told)


def keys(vitals: Vitals) -> list[str]:
    return [problem.key for problem in vitals.problems]


def test_all_is_well() -> None:
    seen = assess([beat(), beat("worker-2", leads=False)], FRESH)
    assert (keys(seen), seen.stale, seen.leader, seen.refusal, seen.leader_refusal) == ([], False, "worker-1", "", "")


def test_nobody_has_ever_written_a_heartbeat_and_nothing_is_claimed() -> None:
    assert assess([], None, "TimeoutError") == Vitals()


def test_what_was_written_before_the_clock_was_set_back_is_no_sign_of_life() -> None:
    """Or a worker that died before would live for as long as the step."""
    dead, alive = beat(age_s=-598.0), beat("worker-2", leads=False)
    seen = assess([dead, alive], FRESH)
    assert (keys(seen), seen.leader, seen.silent) == (
        ["no-leader", "silent-worker-1"],
        "",
        frozenset({("worker-1", "worker-1-life")}),
    )
    assert assess([alive], ProjectionAge(-598.0, NOW_MS)).stale
    assert keys(assess([beat(age_s=-1.0)], FRESH)) == [], "two clocks are never quite the same"


@pytest.mark.parametrize("ended", [True, False])
def test_no_worker_reports(ended: bool) -> None:
    """Whatever Redis, leader or projection look like then follows from it and is not said beside it."""
    seen = assess([beat(age_s=11 if not ended else 1, ended=ended)], ProjectionAge(11, NOW_MS - 11_000), "TimeoutError")
    assert (keys(seen), seen.stale, seen.as_of_ms, seen.leader) == (["no-worker"], True, NOW_MS - 11_000, "")
    assert "Nothing was sent" in seen.refusal
    assert seen.leader_refusal == seen.refusal


@pytest.mark.parametrize("beats", [[], [beat(ended=True)], [beat(leads=False)]], ids=["new", "ended", "no leader"])
def test_what_up_still_starts_is_all_that_is_said(beats: list[WorkerHeartbeat]) -> None:
    seen = assess(beats, None, "TimeoutError", ["Kafka", "worker-1"])
    assert keys(seen) == ["starting"]
    assert "Kafka and worker-1 are not ready yet" in seen.problems[0].text
    assert bool(seen.leader_refusal) == any(each.ended for each in beats), "a request to a live worker is sent"


def test_a_leader_before_the_end_of_the_start_is_nothing_to_wait_for() -> None:
    assert keys(assess([beat()], FRESH, "", ["worker-2"])) == []


def test_kafka_answers_nobody() -> None:
    seen = assess([beat(kafka_error="timed out"), beat("worker-2", kafka_error="timed out")], ProjectionAge(15, 7))
    assert keys(seen) == ["no-kafka"]
    assert (seen.refusal, "Kafka does not answer" in seen.leader_refusal) == ("", True)


def test_one_of_two_is_cut_off_from_kafka_or_redis() -> None:
    seen = assess([beat(), beat("worker-2", kafka_error="timed out", leads=False)], FRESH)
    assert (keys(seen), seen.stale, seen.leader_refusal) == (["no-kafka-worker-2"], False, "")
    assert keys(assess([beat(), beat("worker-2", redis_error="refused")], FRESH)) == ["no-redis-worker-2"]
    assert keys(assess([beat(redis_error="refused")], FRESH, "refused")) == ["no-redis"]


def test_a_leader_that_redis_does_not_reach_takes_no_command() -> None:
    """A request would wait its whole time out. Another worker that is cut off holds nothing up."""
    leader, other = beat(redis_error="refused"), beat("worker-2", leads=False)
    seen = assess([leader, other], FRESH)
    assert (seen.refusal, "worker-1 is the leader, and does not reach Redis" in seen.leader_refusal) == ("", True)
    assert "Nothing was sent" in seen.leader_refusal
    assert assess([beat(), beat("worker-2", leads=False, redis_error="refused")], FRESH).leader_refusal == ""
    nobody = assess([leader, beat("worker-2", leads=False, redis_error="refused")], FRESH)
    assert "No worker reaches Redis" in nobody.refusal
    assert nobody.leader_refusal == nobody.refusal


def test_one_of_two_is_silent_and_forgotten_once_its_tasks_have_moved() -> None:
    seen = assess([beat(), beat("worker-2", 11)], FRESH)
    assert (keys(seen), seen.silent) == (["silent-worker-2"], frozenset({("worker-2", "worker-2-life")}))
    assert keys(assess([beat(), beat("worker-2", 601)], FRESH)) == []


def test_a_cluster_without_a_leader_has_commands_wait_and_not_refused() -> None:
    seen = assess([beat(led_age_s=12.0)], FRESH)
    assert (keys(seen), seen.stale, seen.leader, seen.leader_refusal) == (["no-leader"], False, "", "")
    assert seen.problems[0].since_ms == NOW_MS - 12_000


def test_the_projection_stands_still() -> None:
    assert keys(assess([beat()], ProjectionAge(11, 5))) == ["no-projection"]
    assert keys(assess([beat()], None)) == ["no-projection"]
    assert keys(assess([beat(began_age_s=20.0)], None)) == []  # a new cluster's topics are being read


def test_a_probe_that_fails_once_is_no_outage() -> None:
    answers = ["timed out", "timed out", ""]
    probing = HealthProbe(lambda: answers.pop(0))
    said = []
    for _ in range(3):
        probing.once()
        said.append(probing.error)
    assert said == ["", "timed out", ""]


def test_a_probe_that_hangs_is_an_outage_and_a_process_that_was_frozen_between_two_is_not() -> None:
    now, said = [0.0], list[str]()

    def probe() -> str:
        for _ in range(2):
            now[0] += 5.0
            said.append(probing.error)
        return ""

    probing = HealthProbe(probe, lambda: now[0])
    probing.once()
    now[0] += 60.0
    assert [*said, probing.error] == ["", "no answer", ""]


def test_a_probe_that_raises_an_error_is_an_outage() -> None:
    now = [0.0]
    probing = HealthProbe(lambda: str(1 / 0), lambda: now[0])
    with pytest.raises(ZeroDivisionError):
        probing.once()
    now[0] = 9.0
    assert probing.error == "no answer"
