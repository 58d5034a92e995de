"""Who is suspected, and who gets tasks again: a simulation of an observer, a worker, and the ways between them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, WorkerId
from ringfence.fencing.leader.failure_detector import (
    CALM_S,
    FORGIVEN_S,
    LONGEST_CALM_S,
    LONGEST_SILENCE_S,
    MOST_S,
    Evidence,
    PlaceCounts,
    Watch,
    calm_s,
    decide,
    look,
    silence_s,
    take_out,
    trust_of,
)
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, Placement
from ringfence.fencing.topics.status import SuspicionRecord, Trust

W, I = WorkerId("w"), Incarnation("i")  # noqa: E741
STEP = 0.25
Span = tuple[float, float]
SPANS = st.lists(st.tuples(st.floats(5, 100), st.floats(0.1, 30)), max_size=6)
FEW = settings(max_examples=30, deadline=None)


def never(_now: float) -> bool:
    return False


@dataclass
class Simulation:
    """A look every quarter of a second, unless the observer stands still. Spans are in seconds from the beginning.

    Redis and Kafka each may be out of the worker's or the observer's reach.
    """

    frozen: Callable[[float], bool] = never
    observer_frozen: Callable[[float], bool] = never
    worker_without_redis: Callable[[float], bool] = never
    observer_without_redis: Callable[[float], bool] = never
    without_kafka: Callable[[float], bool] = never
    now: float = 0.0
    trust: list[tuple[float, Trust]] = field(default_factory=list)
    """When the record's trust changed."""
    record: SuspicionRecord | None = None
    watch: Watch | None = None
    _in_topic: SuspicionRecord | None = None
    _answer: int = 0
    _beat: int = 0
    _looked_at: float = 0.0

    def run(self, seconds: float) -> "Simulation":
        end = self.now + seconds
        while self.now < end:
            self.now += STEP
            self._step_of_the_worker()
            if not self.observer_frozen(self.now):
                self._step_of_the_observer()
        return self

    def _step_of_the_worker(self) -> None:
        if self.frozen(self.now):
            return
        if not self.worker_without_redis(self.now):
            self._beat += 1
        if self._in_topic is not None and not self.without_kafka(self.now):
            self._answer = max(self._answer, self._in_topic.question)

    def _step_of_the_observer(self) -> None:
        hears = not self.observer_without_redis(self.now)
        seconds, self._looked_at = self.now - self._looked_at, self.now
        beat = self._beat if hears and self._beat else None
        self.watch = look(self.watch, Evidence(seconds, beat, hears, self._in_topic, self._answer))
        record = decide(self.watch, W, I)
        if record is None or self.without_kafka(self.now):
            return
        if self._in_topic is None or record.trust is not self._in_topic.trust:
            self.trust.append((self.now, record.trust))
        self._in_topic = self.record = record

    @property
    def suspicions(self) -> list[float]:
        return [at for at, trust in self.trust if trust is Trust.SUSPECTED]


def during(*spans: Span) -> Callable[[float], bool]:
    return lambda now: any(start <= now < start + length for start, length in spans)


def test_a_frozen_worker_is_suspected_once_after_about_two_seconds() -> None:
    simulation = Simulation(frozen=during((10, 20))).run(60)
    assert [trust for _, trust in simulation.trust][1:] == [Trust.SUSPECTED, Trust.CALMING, Trust.TRUSTED]
    (suspected,) = simulation.suspicions
    assert 11.75 <= suspected <= 12.5


def test_it_gets_tasks_again_when_it_was_calm_for_long_enough() -> None:
    simulation = Simulation(frozen=during((10, 20))).run(120)
    times = {trust: at for at, trust in simulation.trust}
    assert times[Trust.CALMING] == pytest.approx(30, abs=0.5)
    assert times[Trust.TRUSTED] - times[Trust.CALMING] == pytest.approx(CALM_S, abs=1)


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.5])
def test_a_short_stop_is_no_silence(seconds: float) -> None:
    assert Simulation(frozen=lambda now: now % 5 < seconds).run(300).suspicions == []


def test_the_next_suspicion_needs_a_longer_silence() -> None:
    short_again = Simulation(frozen=during((10, 5), (120, 3.5))).run(200)
    assert len(short_again.suspicions) == 1
    long_again = Simulation(frozen=during((10, 5), (120, 6))).run(200)
    _, second = long_again.suspicions
    assert 124 <= second <= 124.75


def test_each_suspicion_lengthens_the_calm() -> None:
    simulation = Simulation(frozen=during((10, 5), (120, 6))).run(400)
    back = [at for at, trust in simulation.trust if trust is Trust.CALMING]
    trusted = [at for at, trust in simulation.trust if trust is Trust.TRUSTED][1:]
    calm = [after - before for before, after in zip(back, trusted, strict=True)]
    assert calm == [pytest.approx(CALM_S, abs=1), pytest.approx(2 * CALM_S, abs=1)]


def test_an_unsteady_worker_is_not_calm() -> None:
    """Stops that are too short for a suspicion begin the time anew."""
    simulation = Simulation(frozen=lambda now: 10 <= now < 15 or (now > 20 and now % 20 < 1.5)).run(300)
    assert [trust for _, trust in simulation.trust][1:] == [Trust.SUSPECTED, Trust.CALMING]


def test_old_suspicions_are_forgotten() -> None:
    simulation = Simulation(frozen=during((10, 5), (5000, 3))).run(4900)
    assert simulation.record is not None
    assert simulation.record.times == 0
    assert FORGIVEN_S < 4800
    assert len(simulation.run(200).suspicions) == 2


def test_of_a_long_pause_between_two_looks_half_a_second_counts() -> None:
    watch = Watch(heartbeat=5, was_heard=True, record=SuspicionRecord(W, I, question=1))
    after = look(watch, Evidence(60, 5, True, watch.record))
    assert (after.silent_s, after.unanswered_s) == (MOST_S, MOST_S)


@FEW
@given(
    SPANS,
    SPANS,
)
def test_an_observer_that_stands_still_suspects_nobody(stops: list[Span], others: list[Span]) -> None:
    simulation = Simulation(observer_frozen=during(*stops), observer_without_redis=during(*others))
    assert simulation.run(120).suspicions == []


@FEW
@given(SPANS)
def test_who_reaches_kafka_is_not_suspected_whatever_becomes_of_redis(spans: list[Span]) -> None:
    assert Simulation(worker_without_redis=during(*spans)).run(120).suspicions == []
    both = Simulation(worker_without_redis=during(*spans), observer_without_redis=during(*spans))
    assert both.run(120).suspicions == []


@FEW
@given(
    SPANS,
    SPANS,
)
def test_without_kafka_nobody_is_suspected(kafka: list[Span], frozen: list[Span]) -> None:
    """The observer does not read its own question then."""
    away = during(*kafka)
    simulation = Simulation(without_kafka=away, frozen=lambda now: away(now) and during(*frozen)(now))
    assert [at for at in simulation.run(120).suspicions if away(at)] == []


@FEW
@given(st.lists(st.tuples(st.floats(5, 250), st.floats(0.1, 30)), max_size=12))
def test_a_worker_is_not_moved_to_and_fro(stops: list[Span]) -> None:
    """It only gets tasks again after a calm time, which grows. Until then, a suspicion moves nothing."""
    simulation = Simulation(frozen=during(*stops)).run(300)
    times, back_at = 0, 0.0
    for at, trust in simulation.trust:
        if trust is Trust.SUSPECTED:
            times += 1
        elif trust is Trust.CALMING:
            back_at = at
        elif times:
            assert at - back_at >= calm_s(times) - STEP


@given(st.integers(0, 1000))
def test_the_limits_grow_and_are_bounded(times: int) -> None:
    assert silence_s(times) <= silence_s(times + 1) <= LONGEST_SILENCE_S
    assert calm_s(times) <= calm_s(times + 1) <= LONGEST_CALM_S


def test_who_was_never_heard_is_not_suspected() -> None:
    """A worker of an older version sends no heartbeats."""
    assert Simulation(frozen=lambda _now: True).run(60).trust == []


def test_a_suspected_worker_that_only_answers_in_kafka_is_back() -> None:
    simulation = Simulation(frozen=during((10, 5)), worker_without_redis=during((12, 1000)))
    assert Trust.CALMING in [trust for _, trust in simulation.run(30).trust]


def test_the_next_leader_continues_with_what_is_in_the_topic() -> None:
    record = SuspicionRecord(W, I, Trust.SUSPECTED, times=2, question=7)
    watch = look(None, Evidence(0, 5, True, record, answer=6))
    assert decide(watch, W, I) is None
    watch = look(watch, Evidence(STEP, 6, True, record, answer=6))
    assert decide(watch, W, I) == replace(record, trust=Trust.CALMING)
    answered = look(None, Evidence(0, None, True, record, answer=7))
    assert decide(answered, W, I) == replace(record, trust=Trust.CALMING)


def test_others_wait_longer_before_they_suspect() -> None:
    simulation = Simulation(frozen=during((10, 20))).run(12.5)
    assert simulation.watch is not None
    asked = replace(simulation.watch, record=SuspicionRecord(W, I, question=1), silent_s=2.5, unanswered_s=2)
    assert decide(asked, W, I, 0.0) is not None
    assert decide(asked, W, I, 0.75) is None


MEMBERS = [LiveWorker(WorkerId(name), Incarnation(f"i-{name}"), 8) for name in ("a", "b", "c")]


def state_with(*workers: str) -> ClusterState:
    placements = {
        number: Placement(WorkerId(name), Incarnation(f"i-{name}"), 1, Generation(1))
        for number, name in enumerate(workers)
    }
    name = ConnectorName("one")
    return ClusterState(connectors={name: ConnectorState(name, config={}, placements=placements)})


def suspicion(name: str, trust: Trust, incarnation: str | None = None) -> dict[WorkerId, SuspicionRecord]:
    worker = WorkerId(name)
    return {worker: SuspicionRecord(worker, Incarnation(incarnation or f"i-{name}"), trust, 1)}


def test_a_suspected_member_gets_no_task() -> None:
    kept = take_out(MEMBERS, suspicion("b", Trust.SUSPECTED), state_with("b", "b"))
    assert [member.worker for member in kept] == ["a", "c"]


def test_a_calming_member_keeps_what_it_has() -> None:
    kept = take_out(MEMBERS, suspicion("b", Trust.CALMING), state_with("a", "b", "b"))
    assert [(member.slots, member.reserve) for member in kept] == [(8, 0), (2, 6), (8, 0)]
    nothing_left = take_out(MEMBERS, suspicion("b", Trust.CALMING), state_with("a"))
    assert [(member.slots, member.reserve) for member in nothing_left] == [(8, 0), (0, 8), (8, 0)]


def test_another_process_of_that_worker_is_trusted() -> None:
    suspicions = suspicion("b", Trust.SUSPECTED, "an-earlier-one")
    assert take_out(MEMBERS, suspicions, state_with("b")) == MEMBERS
    assert trust_of(suspicions, (WorkerId("b"), Incarnation("i-b"))) is Trust.TRUSTED


def test_what_each_place_has_is_counted_as_it_changes() -> None:
    counts, calming = PlaceCounts(), suspicion("b", Trust.CALMING)
    for workers, slots in ((("b", "b", "b"), 3), (("a", "b"), 1), ((), 0), (("b",), 1)):
        state = state_with(*workers)
        assert take_out(MEMBERS, calming, state, counts) == take_out(MEMBERS, calming, state)
        assert counts.of(state).get((WorkerId("b"), Incarnation("i-b")), 0) == slots
