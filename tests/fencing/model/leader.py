"""A worker that leads, or believes that it does: claims, writes, rounds, placement, commands."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ringfence.engine.leader.commands.offsets import plan_alteration
from ringfence.engine.leader.task_slices import plan_tasks
from ringfence.fencing.errors import Conflict
from ringfence.fencing.ids import leader_transactional_id, task_transactional_id
from ringfence.fencing.leader import reconcile as decisions
from ringfence.fencing.leader.fencing_round import Round, finish
from ringfence.fencing.leader.older_epochs import find_abandoned
from ringfence.fencing.leader.reconcile import forget
from ringfence.fencing.leader.term import TopicRecord
from ringfence.fencing.offsets.source_offsets import Partition, SourceOffsets
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import ConfigRecord, TaskCountRecord
from ringfence.fencing.topics.connector_state import TargetState, TaskCount
from ringfence.requests.request import Refusal
from tests.fencing.model.kafka import Fenced, OldGeneration
from tests.fencing.model.producer import Producer
from tests.fencing.model.world import GROUP, PARTITIONS, WAIT, C, OffsetRecord, Steps, World, fence_id, take_id

Records = Sequence[ConfigRecord | TopicRecord]


class StoodDown(Exception):
    """The term is over."""


def task_configs(count: int) -> list[dict[str, str]]:
    """What the plugin answers: every source partition belongs to one task."""
    return [{"partitions": " ".join(str(p) for p in PARTITIONS if p % count == n)} for n in range(count)]


class Leader:
    """One worker's leading half. `leads`: it owns the partition as far as it knows."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.frozen = False
        self.leads = False
        self._number = number
        self._generation = -1
        self._producer: Producer | None = None
        self._state = ClusterState()
        self._position = 0
        self._jobs: deque[Steps] = deque()
        self._round: tuple[Round, Steps] | None = None

    def __repr__(self) -> str:
        return f"leader {self._number}"

    @property
    def state(self) -> ClusterState:
        """The config topic as it last read it."""
        return self._state

    @property
    def busy(self) -> bool:
        """Something is under way or waits for its turn."""
        return bool(self._jobs) or self._round is not None

    # The group.

    def gain(self, generation: int) -> None:
        """The rebalance callback, with the metadata of its generation."""
        self._generation = generation
        if not self.leads:
            self.leads = True
            self._producer = None
            self._jobs.clear()
            self._jobs.append(self._claim())

    def lose(self) -> None:
        """It learns that it owns the partition no more."""
        self.leads = False
        self._jobs.clear()
        self._round = None

    # Its threads.

    def advance(self, count: int) -> None:
        """The writing thread, at most so many steps."""
        for _ in range(count):
            if not self._jobs or not self.leads:
                return
            job = self._jobs[0]
            try:
                if next(job) is WAIT:
                    return
            except StopIteration:
                self._jobs.popleft()
            except StoodDown:
                self.lose()

    def fence(self, count: int) -> None:
        """The round's thread, at most so many steps."""
        for _ in range(count):
            if self._round is None:
                return
            round_, steps = self._round
            try:
                if next(steps) is WAIT:
                    return
            except StopIteration:
                self._round = None
                self._jobs.append(self._write(partial(self._finish, round_)))

    # A term.

    @property
    def _id(self) -> str:
        shared = leader_transactional_id(GROUP)
        return shared if self.world.rules.one_leader else f"{shared}-{self._number}"

    def _read(self) -> Steps:
        log, end = self.world.kafka.logs["config"], self.world.end_of("config")
        yield None
        while log.stable < end:
            yield WAIT
        self._take(end)

    def _take(self, end: int) -> None:
        for offset, record in self.world.kafka.logs["config"].committed(self._position, end):
            self._state = self.world.apply_all(self._state, offset, record)  # type: ignore[arg-type]
        self._position = max(self._position, end)

    def _prove_membership(self, producer: Producer) -> None:
        if self.world.rules.one_leader:
            try:
                producer.prove_membership(self._generation)
            except OldGeneration:
                raise StoodDown from None

    def _claim(self) -> Steps:
        while True:
            holders: list[Producer] = []
            yield from take_id(self.world, self._id, holders)  # 2
            self._producer = holders[0]
            yield None
            try:
                self._prove_membership(self._producer)  # 3
                self._producer.commit_open()
            except Fenced:
                continue
            yield from self._read()  # 4
            return

    def _write(self, plan: Callable[[ClusterState], Records]) -> Steps:
        while True:
            yield from self._read()
            try:
                records = list(plan(self._state))
            except (Conflict, Refusal):
                return
            if not records:
                return
            before = self._state.end
            yield None
            try:
                producer = self._producer
                assert producer is not None
                producer.append([_to_log(record) for record in records])
                self._prove_membership(producer)
                yield None
                producer.commit()
            except Fenced:
                yield from self._claim()
                if self._state.end == before:
                    continue
            else:
                yield from self._read()
            return

    # Its duties.

    def reconcile(self) -> None:
        """Begin what is due by what it has read."""
        if not self.leads or self._jobs:
            return
        self._take(self.world.kafka.logs["config"].stable)
        due = self._due(self._state)
        for round_ in due.rounds:
            self._start_round(round_)
        if not due.placements and self.world.rules.fence_abandoned:
            self._fence_abandoned()
        if due.placements:
            self._jobs.append(self._write(lambda state: self._due(state).placements))
        if due.forgettable:
            self._jobs.append(self._write(forget))
        for name in due.stale_connectors:
            connector = self._state.connector(name)
            count = int((connector.config or {})["n"])
            self._jobs.append(self._write(plan_tasks(C, connector.config_offset, task_configs(count))))

    def _due(self, state: ClusterState) -> decisions.Steps:
        return decisions.decide(
            state, self.world.status, self.world.members, GROUP, {}, 0.0, settings={"auto.restart.enabled": "false"}
        )

    def _fence_abandoned(self) -> None:
        live = {(member.worker, member.incarnation) for member in self.world.members}
        for last in find_abandoned(self._state, self.world.status, live):
            if last.key not in self.world.ended:
                self.world.ended.add(last.key)
                self._jobs.append(fence_id(self.world, task_transactional_id(GROUP, last.task)))

    def _start_round(self, round_: Round) -> None:
        if self._round is not None and self._round[0].generation == round_.generation:
            return
        if self._round is not None and not self.world.rules.count_names_generation:
            return  # nothing tells that it is another one
        old = self._state.connector(C).count
        if not self.world.rules.always_fence and old is not None and old.tasks == 1 and round_.tasks <= 1:
            round_ = replace(round_, ids=[])
        self._round = round_, self._fence(round_)

    def _fence(self, round_: Round) -> Steps:
        for transactional_id in round_.ids:
            yield None
            yield from fence_id(self.world, transactional_id)
        yield None

    def _finish(self, round_: Round, state: ClusterState) -> Records:
        if self.world.rules.count_names_generation:
            return finish(round_, state)
        if not state.connector(C).round_pending:
            return []
        return [TaskCountRecord(C, round_.tasks, None)]

    # Commands.

    def command(self, plan: Callable[[ClusterState], Records]) -> None:
        """A user's command reaches the leader that is, or that was."""
        if self.leads:
            self._jobs.append(self._write(plan))

    def reset(self) -> Callable[[ClusterState], Records]:
        """Delete all source offsets."""
        known = _Keys(C)
        plan = plan_alteration(C, [({"p": p}, None) for p in PARTITIONS], known, "offsets")

        def early(state: ClusterState) -> Records:
            connector = state.connector(C)
            if connector.target is not TargetState.STOPPED or connector.commit is None or connector.commit.tasks:
                return []
            counted = replace(connector, count=TaskCount(0, connector.generation))
            return plan(replace(state, connectors={C: counted}))

        return plan if self.world.rules.reset_waits_for_round else early


def _to_log(record: ConfigRecord | TopicRecord) -> tuple[str, object]:
    if isinstance(record, TopicRecord):
        return "offsets", OffsetRecord(int(record.key), None)
    return "config", record


class _Keys(SourceOffsets):
    def key_of(self, partition: Partition) -> bytes:
        return str(partition["p"]).encode()
