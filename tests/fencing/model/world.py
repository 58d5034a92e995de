"""The model's one connector, and the book of what readers were promised.

The pure functions are the kernel's own; a rule that is taken out is taken out around them.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.topics.cluster_state import ClusterState, apply, apply_connector
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TaskCountRecord,
    encode,
)
from ringfence.fencing.topics.connector_state import ConnectorState, Placement
from ringfence.fencing.topics.status import Attempt, StatusState
from tests.fencing.model.kafka import Kafka
from tests.fencing.model.producer import Producer

C = ConnectorName("c")
GROUP = "g"
PARTITIONS = (0, 1, 2)
"""Source partitions; a connector of n tasks gives partition p to task p % n."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol's rules. Each can be taken out."""

    uncommitted_end: bool = True
    """The end of a log is its read_uncommitted end, not the last stable offset."""
    end_after_init: bool = True
    """It is asked for after the init that it must cover."""
    always_fence: bool = True
    """A round fences all ids of the old count; no shortcut where there was one task and is at most one."""
    count_names_generation: bool = True
    """A count record counts for the generation that it names; without: for whatever generation stands before it."""
    delete_keeps_count: bool = True
    """A deleted connector keeps its commit and its count."""
    check_after_init: bool = True
    """A task reads the config topic to the end after its init, and ends where its placement is not the newest."""
    placement_attempts: bool = True
    """... and where a newer attempt of the same generation was placed."""
    init_before_offsets: bool = True
    """A task reads its source offsets after its init."""
    one_leader: bool = True
    """Leaders share a transactional id and commit under their group generation."""
    end_leftovers: bool = True
    """After an init or fence, what hangs of the id is ended before anything is written under it."""
    read_raw: bool = True
    """Source offsets are read past open transactions: a producer's records count where its own marker is there."""
    fence_abandoned: bool = True
    """The leader fences the id of a task that ended with a transaction open and is not placed again."""
    reset_waits_for_round: bool = True
    """Source offsets are moved by hand only when the stopped connector's round is over."""

    @property
    def safe(self) -> bool:
        """All that keep readers from being lied to are in: what is left to ask is whether anybody waits for ever."""
        return replace(self, read_raw=True, fence_abandoned=True) == Rules()


class Violation(AssertionError):
    """A reader of committed records was lied to."""


class Waiting:
    """What an actor yields when it cannot go on until something else happens."""


WAIT = Waiting()
Steps = Generator[Waiting | None, None, None]


@dataclass(frozen=True, slots=True)
class Data:
    """A record of the data topic. `run`: how many resets there had been when its task read the offsets."""

    partition: int
    number: int
    run: int


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A record of the offsets topic; None resets."""

    partition: int
    number: int | None


class World:
    """Kafka, the members, and what has been promised so far."""

    def __init__(self, rules: Rules, *, implicit: bool = False) -> None:
        """implicit: the brokers have transactions v2."""
        self.rules = rules
        self.kafka = Kafka(self._committed, implicit=implicit)
        self.status = StatusState()
        self.members = [LiveWorker(WorkerId(name), Incarnation("1"), 3) for name in "ab"]
        self.run = 0
        self.counts = dict.fromkeys(PARTITIONS, 0)
        self.placements: dict[TaskId, Placement] = {}
        self.ended: set[Attempt] = set()
        self.on_placement: Callable[[TaskId, Placement], None] = lambda task, placement: None

    # What readers were promised.

    def _committed(self, records: list[tuple[str, object]]) -> None:
        placed = []
        reset = False
        for _, record in records:
            match record:
                case Data(partition, number, run):
                    self._visible(partition, number, run)
                case OffsetRecord(partition, None):
                    reset = True
                case OffsetRecord(partition, number):
                    if number != self.counts[partition]:
                        raise Violation(f"offset {number} is committed where {self.counts[partition]} records are")
                case CommitRecord():
                    self.placements.clear()
                case PlacementRecord(task, worker, incarnation, attempt, generation) if worker is not None:
                    placement = Placement(worker, incarnation, attempt, generation)
                    self.placements[task] = placement
                    placed.append((task, placement))
        if reset:
            self.run += 1
            self.counts = dict.fromkeys(PARTITIONS, 0)
        for task, placement in placed:
            self.on_placement(task, placement)

    def _visible(self, partition: int, number: int, run: int) -> None:
        if run != self.run:
            raise Violation(f"a record of run {run} becomes visible after reset {self.run} was acknowledged")
        expected = self.counts[partition] + 1
        if number < expected:
            raise Violation(f"duplicate: {number} of partition {partition} once more, {expected} is next")
        if number > expected:
            raise Violation(f"loss: {number} of partition {partition}, {expected} is next")
        self.counts[partition] = number

    def check_logs(self) -> None:
        """What the logs hold must be what was promised."""
        seen: dict[tuple[int, int], int] = {}
        data, offsets = self.kafka.logs["data"], self.kafka.logs["offsets"]
        for _, record in data.decided(0, data.end):
            assert isinstance(record, Data)
            key = record.run, record.partition
            if record.number != seen.get(key, 0) + 1:
                raise Violation(f"the data log holds {record} after number {seen.get(key, 0)}")
            seen[key] = record.number
        newest = dict.fromkeys(PARTITIONS, 0)
        for _, record in offsets.decided(0, offsets.end):
            assert isinstance(record, OffsetRecord)
            newest[record.partition] = record.number or 0
        if newest != self.counts:
            raise Violation(f"the newest offsets are {newest}, the records {self.counts}")

    # Reading, with the rules that concern it.

    def end_of(self, log: str) -> int:
        """What a reader takes for the end of a log now."""
        found = self.kafka.logs[log]
        return found.end if self.rules.uncommitted_end else found.stable

    def apply(self, state: ConnectorState, offset: int, record: ConfigRecord) -> ConnectorState:
        """One connector's state after one more record."""
        return self._weaken(apply_connector(state, offset, record), record)

    def apply_all(self, state: ClusterState, offset: int, record: ConfigRecord) -> ClusterState:
        """The leader's state after one more record."""
        state = apply(state, offset, record)
        changed = self._weaken(state.connector(C), record)
        return replace(state, connectors={**state.connectors, C: changed})

    def _weaken(self, state: ConnectorState, record: ConfigRecord) -> ConnectorState:
        match record:
            case TaskCountRecord() if not self.rules.count_names_generation:
                assert state.count is not None
                return replace(state, count=replace(state.count, generation=state.generation))
            case ConnectorRecord(_, None) if not self.rules.delete_keeps_count:
                return ConnectorState(C, config_offset=state.config_offset)
        return state

    def compact(self) -> None:
        """Compaction reaches the config topic."""
        self.kafka.logs["config"].compact(lambda record: encode(record)[0])  # type: ignore[arg-type]


def take_id(world: World, transactional_id: str, holders: list[Producer]) -> Steps:
    """Take the id; the producer that has it is added to `holders`."""
    producer = Producer(world.kafka, transactional_id)
    while not producer.take():
        yield WAIT
    holders.append(producer)
    if world.rules.end_leftovers:
        world.kafka.end_leftovers(transactional_id)


def fence_id(world: World, transactional_id: str) -> Steps:
    """Fence whoever has the id: a bare InitProducerId, as the leader's fencer sends it."""
    while world.kafka.init(transactional_id) is None:
        yield WAIT
    if world.rules.end_leftovers:
        world.kafka.end_leftovers(transactional_id)
