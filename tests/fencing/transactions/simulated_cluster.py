"""Brokers in memory: partition leaders, a transaction coordinator, a network that does its worst. Time is an event.

The rules are those of Kafka's `ProducerStateManager` and `TransactionCoordinator`. Harsher than a real cluster: every
request may overtake every other, any number may be late, and old brokers do not verify that a partition is in the
transaction (KIP-890, part 1).
"""

import heapq
import random
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ringfence.fencing.transactions.error_codes import ErrorCode
from ringfence.fencing.transactions.messages import (
    NO_TOPIC_ID,
    AddOffsets,
    AddPartitions,
    BatchResponse,
    BrokerSetting,
    CodesResponse,
    CommitOffsets,
    CoordinatorResponse,
    EndTransaction,
    ErrorResponse,
    FindCoordinator,
    IdentityResponse,
    InitProducerId,
    Metadata,
    MetadataResponse,
    Place,
    Produce,
    ProduceResponse,
    Request,
    Response,
    SettingResponse,
    TopicMetadata,
)
from ringfence.fencing.transactions.record_batches import RecordBatch

E = ErrorCode
OFFSETS: Place = ("offsets", 0)
GROUP: Place = ("__consumer_offsets", 0)
_HEAD = struct.Struct(">qiibIhiqqqhii")
NODES = (1, 2, 3)


def batch_of(numbers: list[int]) -> RecordBatch:
    """Records that only this cluster reads."""
    return RecordBatch(len(numbers), 0, 0, 0, struct.pack(f">{len(numbers)}q", *numbers))


class Events:
    """What happens when. `now` is the time of the event that runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._next = 0

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + seconds, self._next, do))
        self._next += 1

    def run(self, until: float, done: Callable[[], bool] = lambda: False) -> None:
        while self._heap and self._heap[0][0] <= until and not done():
            self.now, _, do = heapq.heappop(self._heap)
            do()


@dataclass
class ProducerState:
    """What a partition knows of one producer id."""

    epoch: int = -1
    last: int = -1
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=5))
    open: bool = False
    markers: int = 0
    """Verifications that began before a marker do not count after it."""


@dataclass
class Partition:
    leader: int
    log: list[tuple[int, list[int] | bool]] = field(default_factory=list)
    """(producer id, numbers) of a batch; (producer id, committed) of a marker."""
    producers: dict[int, ProducerState] = field(default_factory=dict)

    def state(self, producer_id: int) -> ProducerState:
        return self.producers.setdefault(producer_id, ProducerState())

    def append(self, producer_id: int, epoch: int, sequence: int, numbers: list[int]) -> int:
        """What `ProducerAppendInfo` checks. Returns an error code."""
        state = self.state(producer_id)
        last = sequence + len(numbers) - 1
        if epoch < state.epoch:
            return E.INVALID_PRODUCER_EPOCH
        if epoch > state.epoch:
            if sequence != 0 and state.epoch >= 0:
                return E.OUT_OF_ORDER_SEQUENCE_NUMBER
            state.epoch = epoch
            state.recent.clear()  # after an unknown epoch, any first number is taken
        elif (sequence, last) in state.recent:
            return E.NONE
        elif sequence != state.last + 1:
            return E.OUT_OF_ORDER_SEQUENCE_NUMBER
        state.last = last
        state.recent.append((sequence, last))
        state.open = True
        self.log.append((producer_id, numbers))
        return E.NONE

    def mark(self, producer_id: int, epoch: int, committed: bool) -> None:
        state = self.state(producer_id)
        if epoch < state.epoch:
            return
        if epoch > state.epoch:
            state.epoch, state.last = epoch, -1
            state.recent.clear()
        state.markers += 1
        if state.open:
            state.open = False
        self.log.append((producer_id, committed))

    def visible(self) -> list[int]:
        """What a read_committed reader sees, in order of the log. Records of an open transaction are not."""
        pending: dict[int, list[tuple[int, list[int]]]] = {}
        seen: list[tuple[int, list[int]]] = []
        for at, (producer_id, what) in enumerate(self.log):
            if isinstance(what, bool):
                batches = pending.pop(producer_id, [])
                seen += batches if what else []
            else:
                pending.setdefault(producer_id, []).append((at, what))
        return [number for _, numbers in sorted(seen, key=lambda each: each[0]) for number in numbers]


@dataclass
class Transaction:
    """The coordinator's row of one transactional id."""

    producer_id: int = -1
    epoch: int = -1
    previous: tuple[int, int] | None = None
    """Who may repeat the last request that gave another epoch."""
    state: str = "Empty"
    places: set[Place] = field(default_factory=set)
    number: int = 0
    next_identity: tuple[int, int] | None = None


class Cluster:
    """One transactional id's coordinator, and all partitions."""

    def __init__(
        self,
        events: Events,
        chance: random.Random,
        places: list[Place],
        *,
        implicit: bool,
        epochs: int,
        timeout_s: float,
    ) -> None:
        """implicit: the brokers have transactions v2. epochs: how many a producer id has."""
        self.events = events
        self.implicit = implicit
        self.coordinator = 1
        self.loading_until = 0.0
        self.partitions = {place: Partition(chance.choice(NODES)) for place in (*places, OFFSETS, GROUP)}
        self.transaction = Transaction()
        self.group_offset = 0
        self._pending_group: dict[int, int] = {}
        self._chance = chance
        self._failures = random.Random(0)
        self._epochs = epochs
        self._timeout_s = timeout_s
        self._next_id = 1000
        self.calm = False
        self.leaders_wait = chance.choice(["1", "20", None])

    # What happens to the cluster.

    def move_something(self) -> None:
        if self._chance.random() < 0.3:
            self.coordinator = self._chance.choice(NODES)
            self.loading_until = self.events.now + self._chance.choice([0.0, 0.05, 0.3])
        else:
            partition = self._chance.choice(list(self.partitions.values()))
            partition.leader = -1
            self.events.after(self._chance.uniform(0, 0.3), lambda: self._elect(partition))

    def _elect(self, partition: Partition) -> None:
        partition.leader = self._chance.choice(NODES)

    def _identity(self, bump_from: tuple[int, int]) -> tuple[int, int]:
        producer_id, epoch = bump_from
        if producer_id < 0 or epoch + 1 >= self._epochs:
            self._next_id += 1
            return self._next_id, 0
        return producer_id, epoch + 1

    # Requests.

    def handle(self, node: int | None, request: Request, answer: Callable[[Response], None]) -> None:
        """Carry a request out, and answer at once or later."""
        match request:
            case Metadata():
                topics: dict[str, list[int]] = {}
                for (topic, _), partition in sorted(self.partitions.items()):
                    topics.setdefault(topic, []).append(partition.leader)
                found = {name: TopicMetadata(0, NO_TOPIC_ID, topics[name]) for name in request.topics}
                answer(MetadataResponse(0, {each: ("h", each) for each in NODES}, found))
            case FindCoordinator():
                answer(CoordinatorResponse(0, 0, self.coordinator, "h", self.coordinator))
            case BrokerSetting():
                answer(SettingResponse(0, 0, self.leaders_wait))
            case Produce():
                assert request.implicit == self.implicit
                assert node is not None
                self._produce(node, request, answer)
            case CommitOffsets():
                assert node is not None
                self._commit_offsets(node, request, answer)
            case _:
                self._coordinate(node, request, answer)

    def _coordinate(self, node: int | None, request: Any, answer: Callable[[Response], None]) -> None:
        code: int = E.NONE
        identity = -1, -1
        if node != self.coordinator:
            code = E.NOT_COORDINATOR
        elif self.events.now < self.loading_until:
            code = E.COORDINATOR_LOAD_IN_PROGRESS
        match request:
            case InitProducerId():
                if not code:
                    code, identity = self._init(request.producer_id, request.epoch)
                answer(IdentityResponse(0, code, *identity))
            case EndTransaction():
                if not code:
                    code, identity = self._answer_end(request)
                answer(IdentityResponse(0, code, *identity))
            case AddPartitions():
                code = code or self._add(request.producer_id, request.epoch, set(request.places))
                answer(CodesResponse(0, dict.fromkeys(request.places, code)))
            case AddOffsets():
                code = code or self._add(request.producer_id, request.epoch, {GROUP})
                answer(ErrorResponse(0, code))

    def _answer_end(self, request: EndTransaction) -> tuple[int, tuple[int, int]]:
        ids = request.producer_id, request.epoch, request.committed
        code, identity = self._end_implicit(*ids) if request.implicit else (self._end(*ids), (-1, -1))
        if not code and self._failures.random() < 0.003:
            # It is done, but something else failed: a real coordinator does so when a fence meets a commit.
            return E.UNKNOWN_SERVER_ERROR, (-1, -1)
        return code, identity

    def _init(self, producer_id: int, epoch: int) -> tuple[int, tuple[int, int]]:
        row = self.transaction
        if row.state.startswith("Prepare"):
            return E.CONCURRENT_TRANSACTIONS, (-1, -1)
        current = row.producer_id, row.epoch
        if epoch >= 0 and (producer_id, epoch) != current:
            retried = (producer_id, epoch) == row.previous and row.state != "Ongoing"
            return (E.NONE, current) if retried else (E.PRODUCER_FENCED, (-1, -1))
        if row.state == "Ongoing":
            row.epoch += 1
            row.previous = None
            self._prepare(False, (row.producer_id, row.epoch))
            return E.CONCURRENT_TRANSACTIONS, (-1, -1)
        row.previous = current if epoch >= 0 else None
        row.producer_id, row.epoch = self._identity(current)
        row.state = "Empty"
        return E.NONE, (row.producer_id, row.epoch)

    def _check(self, producer_id: int, epoch: int) -> int:
        row = self.transaction
        if producer_id != row.producer_id:
            return E.PRODUCER_FENCED if row.previous == (producer_id, epoch) else E.INVALID_PRODUCER_ID_MAPPING
        return E.NONE if epoch == row.epoch else E.PRODUCER_FENCED

    def _add(self, producer_id: int, epoch: int, places: set[Place]) -> int:
        row = self.transaction
        if code := self._check(producer_id, epoch):
            return code
        if row.state.startswith("Prepare"):
            return E.CONCURRENT_TRANSACTIONS
        if row.state != "Ongoing":
            row.state, row.places = "Ongoing", set()
            row.number += 1
            number = row.number
            self.events.after(self._timeout_s, lambda: self._time_out(number))
        row.places |= places
        return E.NONE

    def _time_out(self, number: int) -> None:
        row = self.transaction
        if row.state == "Ongoing" and row.number == number:
            row.previous = (row.producer_id, row.epoch) if self.implicit else None
            row.epoch += 1
            self._prepare(False, (row.producer_id, row.epoch))

    def _end(self, producer_id: int, epoch: int, committed: bool) -> int:
        row = self.transaction
        if code := self._check(producer_id, epoch):
            return code
        name = "Commit" if committed else "Abort"
        if row.state == "Ongoing":
            self._prepare(committed, (producer_id, epoch))
            return E.NONE
        if row.state == "Prepare" + name:
            return E.CONCURRENT_TRANSACTIONS
        return E.NONE if row.state == "Complete" + name else E.INVALID_TXN_STATE

    def _end_implicit(self, producer_id: int, epoch: int, committed: bool) -> tuple[int, tuple[int, int]]:
        row = self.transaction
        name = "Commit" if committed else "Abort"
        nothing = -1, -1
        if (producer_id, epoch) == row.previous and row.state != "Ongoing":
            if row.state == "Prepare" + name:
                return E.CONCURRENT_TRANSACTIONS, nothing
            done = row.state == "Complete" + name
            return (E.NONE, (row.producer_id, row.epoch)) if done else (E.INVALID_TXN_STATE, nothing)
        if code := self._check(producer_id, epoch):
            return code, nothing
        if row.state.startswith("Prepare"):
            return E.CONCURRENT_TRANSACTIONS, nothing
        if row.state != "Ongoing":
            if committed:
                return E.INVALID_TXN_STATE, nothing
            row.places = set()
        row.previous = producer_id, epoch
        row.next_identity = self._identity((producer_id, epoch))
        marker = producer_id, epoch + 1
        row.epoch = epoch + 1
        identity = row.next_identity
        self._prepare(committed, marker)
        return E.NONE, identity

    def _prepare(self, committed: bool, marker: tuple[int, int]) -> None:
        row = self.transaction
        row.state = "PrepareCommit" if committed else "PrepareAbort"
        left = set(row.places)
        slow = self._chance.random() < 0.1

        def complete() -> None:
            row.state = row.state.replace("Prepare", "Complete")
            row.places = set()
            if row.next_identity is not None:
                row.producer_id, row.epoch = row.next_identity
                row.next_identity = None

        def write(place: Place) -> None:
            self.partitions[place].mark(*marker, committed)
            if place == GROUP:
                offset = self._pending_group.pop(marker[0], None)
                if committed and offset is not None:
                    self.group_offset = max(self.group_offset, offset)
            left.discard(place)
            if not left:
                complete()

        if not left:
            self.events.after(self._chance.uniform(0, 0.002), complete)
        for place in sorted(left):
            delay = self._chance.uniform(0.001, 0.5 if slow else 0.005)
            self.events.after(delay, lambda place=place: write(place))  # type: ignore[misc]

    def _produce(self, node: int, request: Produce, answer: Callable[[Response], None]) -> None:
        written: dict[Place, BatchResponse] = {}
        for place, (head, data) in request.batches.items():
            fields = _HEAD.unpack(head)
            producer_id, epoch, sequence, count = fields[9:13]
            numbers = list(struct.unpack(f">{count}q", data))
            self._write(
                node,
                place,
                (producer_id, epoch, sequence),
                numbers,
                lambda code, place=place: self._note(written, place, code, request, answer),  # type: ignore[misc]
            )

    def _note(
        self,
        written: dict[Place, BatchResponse],
        place: Place,
        code: int,
        request: Produce,
        answer: Callable[[Response], None],
    ) -> None:
        written[place] = BatchResponse(code)
        if len(written) == len(request.batches):
            answer(ProduceResponse(0, written))

    def _write(
        self, node: int, place: Place, who: tuple[int, int, int], numbers: list[int], note: Callable[[int], None]
    ) -> None:
        partition = self.partitions[place]
        if partition.leader != node:
            note(E.NOT_LEADER_OR_FOLLOWER)
            return
        producer_id, epoch, sequence = who
        state = partition.state(producer_id)
        if not self.implicit or (state.open and state.epoch == epoch):
            note(partition.append(producer_id, epoch, sequence, numbers))
            return
        guard = state.markers
        if code := self._add(producer_id, epoch, {place}):
            note(E.INVALID_PRODUCER_EPOCH if code == E.PRODUCER_FENCED else code)
            return

        def append() -> None:
            if partition.leader != node:
                note(E.NOT_LEADER_OR_FOLLOWER)
            elif state.markers != guard:
                note(E.INVALID_TXN_STATE)
            else:
                note(partition.append(producer_id, epoch, sequence, numbers))

        self.events.after(self._chance.uniform(0, 0.003), append)

    def _commit_offsets(self, node: int, request: CommitOffsets, answer: Callable[[Response], None]) -> None:
        partition = self.partitions[GROUP]
        who = request.producer_id, request.epoch
        ((place, offset),) = request.offsets.items()

        def note(code: int) -> None:
            answer(CodesResponse(0, {place: code}))

        state = partition.state(who[0])
        if node != self.coordinator:
            note(E.NOT_COORDINATOR)
        elif request.implicit and (code := self._add(*who, {GROUP})):
            note(code)
        elif request.epoch < state.epoch:
            note(E.INVALID_PRODUCER_EPOCH)
        else:
            state.epoch = request.epoch
            self._pending_group[who[0]] = offset
            note(E.NONE)

    def open_places(self) -> list[Place]:
        """Partitions with records of a transaction that has no marker."""
        return [
            place
            for place, partition in self.partitions.items()
            if any(state.open for state in partition.producers.values())
        ]

    def __iter__(self) -> Iterator[Place]:
        return iter(self.partitions)
