"""A pass of the leader looks only at what has changed, and does exactly what a look at everything would do.

Two leaders get the same records, statuses, workers and times. One of them forgets before each pass what rests.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ringfence.engine.leader import connector_instances, reconcile_loop
from ringfence.engine.leader.connector_instances import LeaderInstances
from ringfence.engine.leader.fencing_round_runner import RunningRound
from ringfence.engine.leader.hanging_watch import AbandonedAttempts
from ringfence.engine.leader.reconcile_loop import Reconciler
from ringfence.engine.plugins.errors import PluginError, PluginStarting
from ringfence.engine.plugins.host import version_key
from ringfence.fencing import backoff
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.ids import NO_GENERATION, ConnectorName, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.fence_generation import FenceResult
from ringfence.fencing.leader.fencing_round import Round
from ringfence.fencing.leader.next_placement import REBALANCE_DELAY, LiveWorker
from ringfence.fencing.leader.work_list import WorkList
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics import status as statuses
from ringfence.fencing.topics.cluster_state import ClusterState, Fold
from ringfence.fencing.topics.config_encryption import EncryptionWatch
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    DrainRecord,
    PlacementRecord,
    TargetStateRecord,
    TaskCountRecord,
)
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.status import (
    FAILED,
    LOST,
    MISCONFIGURED,
    STARTING,
    SUPERSEDED,
    ConnectorStatus,
    State,
    StatusRecord,
    StatusState,
    StatusTombstone,
    TaskStatus,
    TopicStatus,
)
from tests.support.no_offsets import NoOffsets

LEADER = WorkerId("leader")
NAMES = [ConnectorName(name) for name in ("a", "b", "c", "d")]
WORKERS = [WorkerId(name) for name in ("u", "v", "w")]
REPORTS: dict[str, dict[str, Any]] = {
    "running": {"state": State.RUNNING},
    "paused": {"state": State.PAUSED},
    "starting": {"state": State.UNASSIGNED, "why": STARTING},
    "failed": {"state": State.FAILED, "why": FAILED, "ended": True},
    "failed open": {"state": State.FAILED, "why": FAILED, "ended": True, "left_open": True},
    "misconfigured": {"state": State.FAILED, "why": MISCONFIGURED, "ended": True},
    "lost": {"state": State.UNASSIGNED, "why": LOST, "ended": True},
    "ended": {"state": State.UNASSIGNED, "why": SUPERSEDED, "ended": True},
}
names = st.sampled_from(NAMES)
counts = st.sampled_from([0, 1, 1, 2, 3])


class Clock:
    """Monotonic, and the wall clock beside it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000)


class Pool:
    """Its calls wait until one is due."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def submit(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        result: Future[Any] = Future()

        def run() -> None:
            try:
                result.set_result(call(*args))
            except Exception as error:
                result.set_exception(error)

        self.calls.append(run)
        return result


class Host:
    """A plugin host whose plugins fail for connectors with the setting `fails`. is_starting: until the next call."""

    def __init__(self) -> None:
        self.is_starting = False
        self.known_versions: dict[tuple[str, str], str] = {}
        self._configs: dict[str, dict[str, str]] = {}

    def start_connector(self, name: str, config: dict[str, str], *_: object, **__: object) -> str:
        if self.is_starting:
            self.is_starting = False
            raise PluginStarting("not yet")
        if config.get("fails"):
            raise PluginError("no luck")
        self._configs[name] = config
        key = version_key(config)
        return self.known_versions.setdefault(key, "1")

    def task_configs(self, name: str, _: int) -> list[dict[str, str]]:
        return [{"n": str(number)} for number in range(int(self._configs[name]["tasks"]))]

    def stop_connector(self, name: str) -> None: ...

    def upgrade_of(self, config: object, version: object) -> None: ...

    def reads_offsets(self, _: object) -> bool:
        return True


class Instances(LeaderInstances):
    """The real ones, which say what they are asked for."""

    def __init__(self, effects: list[object]) -> None:
        self.host = Host()
        super().__init__(self.host, NoOffsets(), lambda: None)  # type: ignore[arg-type]
        self._effects = effects
        self._pool.shutdown()
        self._readers.shutdown()
        self._pool = self.calls = Pool()  # type: ignore[assignment]

    def ask(self, connector: ConnectorState) -> bool:
        is_new = super().ask(connector)
        self._effects.append(("ask", connector.name, is_new))
        return is_new

    def forget(self, name: ConnectorName) -> None:
        self._effects.append(("forget", name))
        super().forget(name)


class Rounds:
    """They run until `finish`."""

    def __init__(self, effects: list[object], clock: Clock) -> None:
        self._effects = effects
        self._clock = clock
        self._running: dict[ConnectorName, RunningRound] = {}
        self._not_before: dict[ConnectorName, float] = {}

    def start(self, due: Round, busy: Callable[[Round], bool], request: Any, *, urgent: bool) -> bool:
        running = self._running.get(due.connector)
        if running is not None and running.round.generation == due.generation:
            return False
        if self._clock.now < self._not_before.get(due.connector, 0):
            return False
        self._running[due.connector] = RunningRound(due, Future(), request, self._clock.now)
        self._effects.append(("round", due, busy(due), urgent))
        return True

    def finish(self, name: ConnectorName, error: FencingError | None = None) -> None:
        if (running := self._running.get(name)) is None or running.result.done():
            return
        if error is not None:
            running.result.set_exception(error)
        else:
            running.result.set_result(FenceResult())

    def record_failure(self, round_: Round, _: FencingError) -> float:
        self._not_before[round_.connector] = self._clock.now + 1
        return 1.0

    def take_finished(self) -> list[RunningRound]:
        done = [running for running in self._running.values() if running.result.done()]
        for running in done:
            del self._running[running.round.connector]
        return sorted(done, key=lambda running: running.round.connector)


class Abandoned:
    """What it was asked to fence, and has fenced."""

    def __init__(self, effects: list[object]) -> None:
        self._effects = effects
        self._due: list[TaskStatus] = []
        self.is_done = False

    def start(self, due: list[TaskStatus]) -> None:
        self._due = due
        self._effects.append(("abandoned", due))

    def take_finished(self) -> list[AbandonedAttempts]:
        due, self._due = self._due if self.is_done else [], []
        self.is_done = False
        return [AbandonedAttempts([each], FenceResult()) for each in due]


@dataclass
class Leader:
    """A leader with its own topics. It is also its loop's term and reporter."""

    clock: Clock
    settings: dict[str, str]
    looks_at_all: bool
    effects: list[object] = field(default_factory=list)
    state: ClusterState = field(default_factory=ClusterState)
    statuses: StatusState = field(default_factory=StatusState)
    reports: list[StatusRecord] = field(default_factory=list)
    encryption: EncryptionWatch = field(default_factory=EncryptionWatch)

    def __post_init__(self) -> None:
        self.instances = Instances(self.effects)
        self.rounds = Rounds(self.effects, self.clock)
        self.abandoned = Abandoned(self.effects)
        self.begin_term()

    def begin_term(self) -> None:
        loop: Any = Reconciler
        self.loop: Any = loop(
            self, "g", LEADER, self, self.rounds, self.abandoned, self.instances, lambda: self.statuses, self.settings
        )

    def apply(self, *records: ConfigRecord) -> None:
        folding = Fold(self.state)
        for record in records:
            folding.apply(folding.state.end, record)
        self.state = folding.state

    def write(self, plan: Callable[[ClusterState], Sequence[ConfigRecord]], *_: object) -> tuple[ClusterState, int]:
        records = plan(self.state)
        self.effects.append(("write", records))
        if not records:
            return self.state, -1
        self.apply(*records)
        return self.state, self.state.end - 1

    def refresh(self, _: object) -> ClusterState:
        return self.state

    def now_ms(self) -> int:
        return self.clock.now_ms

    def status(self, record: StatusRecord) -> None:
        self.effects.append(("status", record))
        self.reports.append(record)

    def event(self, *args: object, **fields: object) -> None:
        self.effects.append(("event", args, fields))

    def read(self, *records: StatusRecord) -> None:
        self.statuses = statuses.fold(self.statuses, records)

    def look(self, members: list[LiveWorker], between: Callable[[], None]) -> list[object]:
        """Do a pass, and return what it did. between: called between its parts."""

        def waits() -> bool:
            between()
            return False

        if self.looks_at_all:
            delay_s = int(self.settings[REBALANCE_DELAY]) / 1000 if REBALANCE_DELAY in self.settings else None
            self.loop._work = WorkList("g", self.settings, delay_s)
            for name in self.instances.running():
                self.loop._work.open(name)
        self.effects.clear()
        self.loop.step(members, waits)
        assert self.loop._pass is None
        return list(self.effects)


class Passes(RuleBasedStateMachine):
    """Everything that may change something for a leader, in any order."""

    @initialize(
        delay=st.sampled_from([None, "0", "30000"]), mode=st.sampled_from(Mode), tasks=st.sampled_from([0, 1, 2])
    )
    def begin(self, delay: str | None, mode: Mode, tasks: int) -> None:
        """Begin with some connectors whose tasks all run, or without any."""
        self.clock = Clock()
        self.held = 0
        self.part = 0
        self.later: list[Callable[[Leader], object]] = []
        self.stack = patches(self.clock)
        self.stack.__enter__()
        worker = {} if delay is None else {REBALANCE_DELAY: delay}
        self.leaders = [Leader(self.clock, worker, looks_at_all) for looks_at_all in (False, True)]
        self.quick = self.leaders[0]
        self.members = {name: LiveWorker(name, Incarnation(f"{name}1"), 4, mode) for name in WORKERS[:2]}
        if tasks:
            for name in NAMES[:3]:
                self.configure(name, tasks, "")
            self.rest()

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.__exit__(None, None, None)

    def each(self, act: Callable[[Leader], object]) -> None:
        if self.part:
            self.later.append(act)
            return
        for leader in self.leaders:
            act(leader)

    # What users, other leaders and tasks write.

    @rule(name=names, tasks=counts, fails=st.sampled_from(["", "", "yes"]))
    def configure(self, name: ConnectorName, tasks: int, fails: str) -> None:
        config = {"connector.class": "C", "tasks": str(tasks), "tasks.max": "3", "fails": fails}
        self.each(lambda leader: leader.apply(ConnectorRecord(name, config)))

    @rule(name=names)
    def delete(self, name: ConnectorName) -> None:
        records = CommitRecord(name, 0), TargetStateRecord(name, None), ConnectorRecord(name, None)
        self.each(lambda leader: leader.apply(*records))

    @rule(name=names, wanted=st.sampled_from([*TargetState, TargetState.RUNNING]))
    def aim(self, name: ConnectorName, wanted: TargetState) -> None:
        self.each(lambda leader: leader.apply(TargetStateRecord(name, wanted)))

    @rule(name=names)
    def make_unreadable(self, name: ConnectorName) -> None:
        def act(leader: Leader) -> None:
            folding = Fold(leader.state)
            folding.mark_unreadable(leader.state.end, name, "it is damaged")
            leader.state = folding.state

        self.each(act)

    @rule(name=names)
    def let_kafka_connect_count(self, name: ConnectorName) -> None:
        self.each(lambda leader: leader.apply(TaskCountRecord(name, 2, None)))

    @rule(name=names, number=st.integers(0, 2), worker=st.sampled_from(WORKERS))
    def place_elsewhere(self, name: ConnectorName, number: int, worker: WorkerId) -> None:
        """As another leader would."""
        old = self.quick.state.connector(name).placements.get(number)
        if old is not None:
            record = PlacementRecord(
                TaskId(name, number), worker, Incarnation(f"{worker}1"), old.attempt + 1, old.generation, mode=old.mode
            )
            self.each(lambda leader: leader.apply(record))

    @rule(worker=st.sampled_from(WORKERS), ends=st.booleans())
    def drain(self, worker: WorkerId, ends: bool) -> None:
        member = self.members.get(worker)
        if member is not None:
            self.each(lambda leader: leader.apply(DrainRecord(worker, None if ends else member.incarnation)))

    @rule(name=names, number=st.integers(0, 2), what=st.sampled_from(sorted(REPORTS)), asks=st.booleans())
    def report(self, name: ConnectorName, number: int, what: str, asks: bool) -> None:
        placement = self.quick.state.connector(name).placements.get(number)
        if placement is None:
            return
        record = TaskStatus(
            TaskId(name, number),
            worker=placement.worker,
            generation=placement.generation,
            attempt=placement.attempt,
            incarnation=placement.incarnation,
            since_ms=self.clock.now_ms,
            restarts=placement.restarts,
            reconfigure_ms=self.clock.now_ms if asks else 0,
            **REPORTS[what],
        )
        self.each(lambda leader: leader.read(record))

    @rule()
    def report_that_all_run(self) -> None:
        for name in NAMES:
            for number in range(3):
                self.report(name, number, "running", False)

    @rule(name=names, number=st.integers(0, 3), kind=st.sampled_from(["connector", "task", "topic", "gone"]))
    def report_as_somebody_else(self, name: ConnectorName, number: int, kind: str) -> None:
        records: dict[str, StatusRecord] = {
            "connector": ConnectorStatus(
                name, State.PAUSED, WorkerId("x"), self.quick.state.connector(name).generation or NO_GENERATION
            ),
            "task": StatusTombstone(f"status-task-{name}-{number}"),
            "topic": TopicStatus(name, "t", 0, 1),
            "gone": StatusTombstone(f"status-connector-{name}"),
        }
        self.each(lambda leader: leader.read(records[kind]))

    @rule(most=st.sampled_from([1, 3, 100, 100, 100]), are_lost=st.sampled_from([False, False, True]))
    def carry_reports(self, most: int, are_lost: bool) -> None:
        def act(leader: Leader) -> None:
            records, leader.reports = leader.reports[:most], leader.reports[most:]
            leader.read(*(() if are_lost else records))

        self.each(act)

    # Workers, instances, rounds, time.

    @rule(worker=st.sampled_from(WORKERS))
    def leave(self, worker: WorkerId) -> None:
        self.members.pop(worker, None)

    @rule(
        worker=st.sampled_from(WORKERS),
        process=st.sampled_from("1123"),
        slots=st.integers(0, 4),
        mode=st.sampled_from(Mode),
    )
    def join(self, worker: WorkerId, process: str, slots: int, mode: Mode) -> None:
        self.members[worker] = LiveWorker(worker, Incarnation(worker + process), slots, mode)

    @rule(worker=st.sampled_from(WORKERS), slots=st.integers(0, 3), reserve=st.integers(0, 2))
    def resize(self, worker: WorkerId, slots: int, reserve: int) -> None:
        if worker in self.members:
            self.members[worker] = replace(self.members[worker], slots=slots, reserve=reserve)

    @rule(most=st.sampled_from([1, 9]))
    def answer(self, most: int) -> None:
        def act(leader: Leader) -> None:
            calls = leader.instances.calls.calls
            for call in calls[:most]:
                call()
            del calls[:most]

        self.each(act)

    @rule(name=names, kind=st.sampled_from(["error", "restart", "fail", "discard"]))
    def disturb(self, name: ConnectorName, kind: str) -> None:
        def act(leader: Leader) -> None:
            match kind:
                case "error":
                    leader.instances.note_error(name, "it hurts")
                case "restart":
                    leader.instances.restart(name)
                case "fail":
                    leader.instances.fail(name, leader.state.connector(name).config_offset, "it hurts")
                case _:
                    leader.instances.discard(name)

        self.each(act)

    @rule(version=st.sampled_from("12"))
    def learn_version(self, version: str) -> None:
        key = version_key({"connector.class": "C"})
        self.each(lambda leader: leader.instances.host.known_versions.update({key: version}))

    @rule(name=names)
    def commit_too_many_tasks(self, name: ConnectorName) -> None:
        if self.quick.state.connector(name).commit is not None:
            self.each(lambda leader: leader.apply(CommitRecord(name, 4)))

    @rule()
    def let_plugins_start(self) -> None:
        def act(leader: Leader) -> None:
            leader.instances.host.is_starting = True

        self.each(act)

    @rule(name=names)
    def finish_round(self, name: ConnectorName) -> None:
        self.each(lambda leader: leader.rounds.finish(name))

    @rule(name=names)
    def fail_round(self, name: ConnectorName) -> None:
        self.each(lambda leader: leader.rounds.finish(name, Retriable("nobody answers")))

    @rule()
    def finish_rounds(self) -> None:
        for name in NAMES:
            self.finish_round(name)

    @rule()
    def fence_abandoned(self) -> None:
        def act(leader: Leader) -> None:
            leader.abandoned.is_done = True

        self.each(act)

    @rule(seconds=st.sampled_from([0.3, 4.0, 11.0, 70.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    # What the leaders do about it.

    @rule(changes=st.integers(1, 3))
    def hold(self, changes: int) -> None:
        """Let several things happen before the next pass."""
        self.held = 1 + changes

    @rule(part=st.integers(1, 4))
    def interrupt(self, part: int) -> None:
        """Let the next things happen in the middle of the next pass."""
        self.part, self.held = part, 2

    @invariant()
    def look_after_each_change(self) -> None:
        self.held = max(0, self.held - 1)
        if hasattr(self, "leaders") and not self.held:
            self.look()

    def look(self) -> None:
        members = sorted(self.members.values())
        later, part, self.later, self.part = self.later, self.part, [], 0
        effects = [self._look(leader, members, later, part) for leader in self.leaders]
        assert effects[0] == effects[1]
        assert not self.quick.loop._has_warned

    @staticmethod
    def _look(
        leader: Leader, members: list[LiveWorker], later: Sequence[Callable[[Leader], object]], part: int
    ) -> list[object]:
        acts = list(later)
        parts = count(1)

        def between() -> None:
            if next(parts) == part:
                while acts:
                    acts.pop(0)(leader)

        effects = leader.look(members, between)
        while acts:  # the pass had fewer parts
            acts.pop(0)(leader)
        return effects

    @rule()
    def come_to_rest(self) -> None:
        """Until nothing is left to be done by itself."""
        for _ in range(8):
            self.answer(9)
            self.finish_rounds()
            self.carry_reports(100, False)
            self.look()

    @rule()
    def rest(self) -> None:
        """A cluster in which all tasks run: nearly everything rests."""
        self.come_to_rest()
        self.report_that_all_run()
        self.come_to_rest()


@contextmanager
def patches(clock: Clock) -> Iterator[None]:
    time = SimpleNamespace(monotonic=clock.monotonic)
    with (
        patch.object(reconcile_loop, "time", time),
        patch.object(connector_instances, "time", time),
        patch.object(backoff, "random", SimpleNamespace(uniform=lambda _, most: most)),
    ):
        yield


A, B = NAMES[:2]
U = WORKERS[0]


def fail(passes: Passes, what: str = "failed") -> None:
    for name in NAMES:
        passes.report(name, 0, what, False)
    passes.come_to_rest()


def lose_failed(passes: Passes) -> None:
    fail(passes, "misconfigured")
    passes.leave(U)
    passes.look()
    passes.wait(4)
    passes.join(U, "2", 4, Mode.DISABLED)


def restart_late(passes: Passes) -> None:
    fail(passes)
    passes.wait(11)


def give_up(passes: Passes) -> None:
    passes.report(A, 0, "starting", False)
    passes.look()
    passes.wait(70)


def ask(passes: Passes) -> None:
    passes.report(A, 0, "running", True)
    for seconds in (0.3, 4, 11, 11, 11):
        passes.look()
        passes.answer(9)
        passes.wait(seconds)


def run_later(passes: Passes) -> None:
    """The instance starts long after its configuration was read."""
    passes.configure(A, 1, "")
    for _ in range(3):
        passes.look()
        passes.wait(0.3)
    passes.answer(9)


def restart_instance(passes: Passes) -> None:
    passes.disturb(A, "restart")
    passes.look()
    passes.answer(9)


def fail_to_restart(passes: Passes) -> None:
    passes.configure(A, 1, "yes")
    passes.look()
    passes.answer(9)


def learn_of_a_stopped_one(passes: Passes) -> None:
    passes.aim(A, TargetState.STOPPED)
    passes.come_to_rest()
    passes.learn_version("2")


def remove_what_is_left(passes: Passes) -> None:
    passes.report_as_somebody_else(A, 0, "topic")
    passes.delete(A)


def place_twice(passes: Passes) -> None:
    """Nothing fences the attempt before: its place is reserved."""
    passes.report_that_all_run()
    passes.join(WORKERS[2], "1", 4, Mode.DISABLED)
    for _ in range(3):
        passes.look()
        passes.carry_reports(100, False)
    passes.report(A, 0, "ended", False)


def stop_with_a_reserved_place(passes: Passes) -> None:
    """The time that its worker has to come back passes, although the connector is stopped."""
    passes.join(WORKERS[2], "1", 4, Mode.DISABLED)
    for _ in range(3):
        passes.look()
        passes.carry_reports(100, False)
    for name in (A, B):  # the places of the third one's tasks are reserved
        passes.delete(name)
    passes.aim(NAMES[2], TargetState.STOPPED)
    passes.come_to_rest()
    for worker in WORKERS[:2]:
        passes.leave(worker)
    passes.come_to_rest()
    passes.wait(230)
    passes.aim(NAMES[2], TargetState.RUNNING)


def forget_failure_of_a_lost_worker(passes: Passes) -> None:
    """The time that its worker has to come back passes, although its tasks have failed and are not placed again."""
    for name in NAMES[:3]:
        for number in range(2):
            passes.report(name, number, "misconfigured", False)
    passes.come_to_rest()
    for worker in WORKERS[:2]:
        passes.leave(worker)
    passes.join(WORKERS[2], "1", 4, Mode.DISABLED)
    passes.come_to_rest()
    passes.wait(230 if passes.quick.settings == {} else 20)
    passes.report_as_somebody_else(A, 0, "task")


def move_all(passes: Passes) -> None:
    passes.leave(U)
    passes.come_to_rest()
    passes.report_that_all_run()
    passes.come_to_rest()
    passes.join(WORKERS[2], "1", 4, Mode.ENABLED)


def lose_report(passes: Passes) -> None:
    passes.report(A, 0, "failed", False)
    passes.look()
    passes.carry_reports(100, True)
    passes.wait(4)


def forget_failure(passes: Passes) -> None:
    """The task counts as one that runs."""
    fail(passes, "misconfigured")
    for name in NAMES:
        passes.report_as_somebody_else(name, 0, "task")
    passes.look()
    passes.resize(U, 2, 0)


def fail_rounds(passes: Passes) -> None:
    passes.let_kafka_connect_count(A)
    for _ in range(3):
        passes.look()
        passes.fail_round(A)
    passes.look()
    passes.wait(2)


def start_slowly(passes: Passes) -> None:
    """An instance that runs is asked again for its tasks, and does not answer at first."""
    passes.commit_too_many_tasks(A)
    passes.look()
    passes.finish_rounds()
    for _ in range(3):
        passes.look()
        passes.carry_reports(100, False)
    passes.let_plugins_start()
    passes.answer(9)


def delete_two(passes: Passes) -> None:
    """What is left of the second one is removed a moment after that of the first one."""
    for name in (A, B):
        passes.delete(name)
        passes.come_to_rest()


def fail_while_a_pass_runs(passes: Passes) -> None:
    passes.configure(B, 1, "")
    passes.interrupt(1)
    passes.report(A, 0, "failed open", False)


def configure_while_a_pass_runs(passes: Passes) -> None:
    passes.configure(B, 1, "")
    for part in (1, 2, 3):
        passes.interrupt(part)
        passes.configure(A, 1, "")
        passes.look()


def disturb_while_a_pass_runs(passes: Passes) -> None:
    passes.configure(B, 1, "")
    passes.interrupt(1)
    passes.disturb(A, "error")


CHANGES: dict[str, Callable[[Passes], object]] = {
    "a configuration": lambda passes: passes.configure(A, 2, ""),
    "a configuration for an instance that starts late": run_later,
    "a configuration with which nothing starts": fail_to_restart,
    "a pause": lambda passes: passes.aim(A, TargetState.PAUSED),
    "a stop": lambda passes: passes.aim(A, TargetState.STOPPED),
    "a deletion": remove_what_is_left,
    "a record that cannot be read": lambda passes: passes.make_unreadable(A),
    "a count of Kafka Connect": lambda passes: passes.let_kafka_connect_count(A),
    "a placement of another leader": lambda passes: passes.place_elsewhere(A, 0, WORKERS[1]),
    "a drain": lambda passes: passes.drain(U, False),
    "a failure": fail,
    "a failure with a transaction open": lambda passes: fail(passes, "failed open"),
    "the time of a restart": restart_late,
    "a loss": lambda passes: fail(passes, "lost"),
    "a silent attempt": give_up,
    "a request for new tasks": ask,
    "a reserved place": place_twice,
    "a stop with a reserved place": stop_with_a_reserved_place,
    "a status of somebody else": lambda passes: passes.report_as_somebody_else(A, 0, "connector"),
    "a status that is gone": lambda passes: passes.report_as_somebody_else(A, 0, "gone"),
    "a topic of a connector that does not exist": lambda passes: passes.report_as_somebody_else(NAMES[3], 0, "topic"),
    "a worker that leaves": lambda passes: passes.leave(U),
    "a worker that leaves with failed tasks": lose_failed,
    "a worker that starts again": lambda passes: passes.join(U, "2", 4, Mode.ENABLED),
    "another worker": lambda passes: passes.join(WORKERS[2], "1", 4, Mode.ENABLED),
    "another worker after all tasks have moved": move_all,
    "fewer slots": lambda passes: passes.resize(U, 1, 0),
    "an error of an instance": lambda passes: passes.disturb(A, "error"),
    "an instance that fails": lambda passes: passes.disturb(A, "fail"),
    "an instance that is discarded": lambda passes: passes.disturb(A, "discard"),
    "a restart of an instance": restart_instance,
    "a version": learn_of_a_stopped_one,
    "a report that is lost": lose_report,
    "a failure that nobody knows of any more": forget_failure,
    "a failure at a lost worker that nobody knows of any more": forget_failure_of_a_lost_worker,
    "a round that fails": fail_rounds,
    "a plugin that starts slowly": start_slowly,
    "two deletions": delete_two,
    "a failure while a pass runs": fail_while_a_pass_runs,
    "a configuration while a pass runs": configure_while_a_pass_runs,
    "an error of an instance while a pass runs": disturb_while_a_pass_runs,
}


@pytest.mark.parametrize("delay", [None, "30000"])
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_seen_where_all_else_rests(change: str, mode: Mode, delay: str | None) -> None:
    passes = Passes()
    try:
        passes.begin(delay, mode, 2)
        assert not passes.quick.loop._work.names
        CHANGES[change](passes)
        for seconds in (0.3, 4, 11, 70, 700):
            passes.look()
            passes.carry_reports(100, False)
            passes.look()
            passes.wait(seconds)
        passes.rest()
    finally:
        passes.teardown()


def test_a_pass_does_what_a_look_at_everything_would_do() -> None:
    logging.disable(logging.WARNING)
    try:
        run_state_machine_as_test(
            Passes,
            settings=settings(
                max_examples=40,
                stateful_step_count=25,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        logging.disable(logging.NOTSET)


def test_what_was_overlooked_is_done_within_a_minute_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    passes = Passes()
    try:
        passes.begin(None, Mode.ENABLED, 1)
        leader = passes.quick
        members = sorted(passes.members.values())
        leader.look(members, lambda: None)
        for name in (A, B):
            leader.apply(ConnectorRecord(name, {"connector.class": "C", "tasks": "2", "tasks.max": "3", "fails": ""}))
            leader.loop._work.state = leader.state  # as if it had looked
            assert ("ask", name, True) not in leader.look(members, lambda: None)
            effects: list[object] = []
            for _ in range(4):
                passes.wait(30)
                effects += leader.look(members, lambda: None)
            assert ("ask", name, True) in effects
    finally:
        passes.teardown()
    (warning,) = [record for record in caplog.records if "defect" in record.getMessage()]
    assert warning.levelno == logging.WARNING
    assert "1 connectors that the leader had not looked at, such as a" in warning.getMessage()


def test_old_reports_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_loop, "_MOST_REPORTS", 20)
    passes = Passes()
    try:
        passes.begin(None, Mode.ENABLED, 1)
        reports = passes.quick.loop.statuses
        for number in range(200):
            reports.say(f"status-connector-{number}", StatusTombstone(f"status-connector-{number}"))
            passes.wait(1)
        assert len(reports._last_reports) <= 21
        passes.quick.reports.clear()
        reports.say("status-connector-199", StatusTombstone("status-connector-199"))
        assert not passes.quick.reports, "it was said a second ago"
    finally:
        passes.teardown()


def test_instances_of_an_earlier_term_are_stopped_in_the_first_pass() -> None:
    passes = Passes()
    try:
        passes.begin(None, Mode.ENABLED, 1)
        leader, gone = passes.quick, ConnectorName("gone")
        leader.instances.mark_started(gone, 1)
        leader.instances.take_changes()
        leader.begin_term()
        assert ("forget", gone) in leader.look(sorted(passes.members.values()), lambda: None)
        assert not leader.instances.has(gone)
    finally:
        passes.teardown()
