"""As much of Kafka as exactly-once depends on, in memory: logs with transactions, ids with epochs, one group.

What a commit answers and what a reader sees are two things here, as they are in Kafka: a decided transaction stays
above the last stable offset of each log until its marker is written there, in a step of its own.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

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
    Produce,
    ProduceResponse,
    Request,
    Response,
    SettingResponse,
    TopicMetadata,
)

_NODE = 1
_PRODUCER = 1
_TOPIC = TopicMetadata(0, NO_TOPIC_ID, [_NODE])
_EPOCH_AT = 51
"""Where a batch's head has the epoch."""


class Fenced(Exception):
    """The epoch is not the newest one of its transactional id."""


class OldGeneration(Exception):
    """The group has gone on without this member's metadata."""


class Fate(Enum):
    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(eq=False, slots=True)
class Transaction:
    """`owner`: its transactional id; `unmarked`: the logs that it wrote to and that have no marker of it yet."""

    owner: str = ""
    fate: Fate = Fate.OPEN
    records: list[tuple[str, object]] = field(default_factory=list)
    unmarked: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record, or (record None) a marker, or what compaction has left."""

    transaction: Transaction
    record: object


class Log:
    """One partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: list[Entry] = []
        self._stable = 0

    @property
    def end(self) -> int:
        """The read_uncommitted end."""
        return len(self.entries)

    @property
    def stable(self) -> int:
        """The last stable offset: nothing at or above it is given to a read_committed reader."""
        while self._stable < self.end and self.name not in self.entries[self._stable].transaction.unmarked:
            self._stable += 1
        return self._stable

    def committed(self, start: int, end: int) -> Iterator[tuple[int, object]]:
        """What a read_committed reader is given between two offsets, both at most `stable`."""
        return self.decided(start, min(end, self.stable))

    def decided(self, start: int, end: int) -> Iterator[tuple[int, object]]:
        """The same with what is committed, and not yet marked so."""
        for offset in range(start, end):
            entry = self.entries[offset]
            if entry.record is not None and entry.transaction.fate is Fate.COMMITTED:
                yield offset, entry.record

    def marked(self, start: int, end: int) -> Iterator[tuple[int, object]]:
        """What is committed and has its marker here, whatever is still open before it: a raw reader's view."""
        for offset, record in self.decided(start, end):
            if self.name not in self.entries[offset].transaction.unmarked:
                yield offset, record

    def compact(self, key: Callable[[object], object]) -> None:
        """Keep the newest record of each key, among those that readers may see; offsets stay."""
        seen = set()
        for offset in reversed(range(self.stable)):
            entry = self.entries[offset]
            if entry.record is None:
                continue
            name = key(entry.record)
            if entry.transaction.fate is Fate.ABORTED or name in seen:
                self.entries[offset] = Entry(entry.transaction, None)
            else:
                seen.add(name)


class Kafka:
    """`on_commit` is called with the records of each transaction whose commit was answered with yes.

    implicit: the brokers have transactions v2, so each transaction has an epoch of its own.
    """

    def __init__(self, on_commit: Callable[[list[tuple[str, object]]], None], *, implicit: bool = False) -> None:
        self.implicit = implicit
        self.now = 0.0
        self._kept: list[object] = []
        self._added: dict[str, set[str]] = {}
        self.logs = {name: Log(name) for name in ("config", "offsets", "data")}
        self.group_generation = 0
        self._on_commit = on_commit
        self._epochs: dict[str, int] = {}
        self._transactions: dict[str, Transaction] = {}
        self._decided: list[Transaction] = []
        self._hanging: list[Transaction] = []

    def init(self, transactional_id: str) -> int | None:
        """InitProducerId: the new epoch; None for "not yet", when the transaction before has no markers yet."""
        before = self._transactions.get(transactional_id)
        if before is not None and before.fate is Fate.OPEN:
            self._epochs[transactional_id] += 1
            self._decide(before, Fate.ABORTED)
        if before is not None and before.unmarked:
            return None
        self._transactions.pop(transactional_id, None)
        self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
        return self._epochs[transactional_id]

    def holds(self, transactional_id: str, epoch: int) -> bool:
        """Whether nobody has taken the id since this epoch."""
        return self._epochs.get(transactional_id) == epoch

    # A producer's requests.

    def keep(self, record: object) -> bytes:
        """Return what stands for a record in a batch."""
        self._kept.append(record)
        return b"%d" % (len(self._kept) - 1)

    def handle(self, request: Request) -> Response:
        """Carry out what a producer asks for."""
        match request:
            case FindCoordinator():
                return CoordinatorResponse(0, 0, _NODE, "h", 1)
            case Metadata():
                return MetadataResponse(0, {_NODE: ("h", 1)}, dict.fromkeys(request.topics, _TOPIC))
            case InitProducerId():
                return self._init(request)
            case AddPartitions():
                code = self._add(request.transactional_id, request.epoch, {log for log, _ in request.places})
                return CodesResponse(0, dict.fromkeys(request.places, code))
            case AddOffsets():
                return ErrorResponse(0, self._add(request.transactional_id, request.epoch, set()))
            case Produce():
                return self._produce(request)
            case CommitOffsets():
                code = self._add(request.transactional_id, request.epoch, set())
                if not code and request.member.generation != self.group_generation:
                    code = ErrorCode.ILLEGAL_GENERATION
                return CodesResponse(0, dict.fromkeys(request.offsets, code))
            case BrokerSetting():
                return SettingResponse(0, 0, "1")
        assert isinstance(request, EndTransaction)
        return self._end(request)

    def _init(self, request: InitProducerId) -> IdentityResponse:
        if request.epoch >= 0 and not self.holds(request.transactional_id, request.epoch):
            return IdentityResponse(0, ErrorCode.PRODUCER_FENCED, -1, -1)
        epoch = self.init(request.transactional_id)
        if epoch is None:
            return IdentityResponse(0, ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
        return IdentityResponse(0, 0, _PRODUCER, epoch)

    def _add(self, transactional_id: str, epoch: int, logs: set[str]) -> int:
        """Return an error code. Opens a transaction where none is."""
        if not self.holds(transactional_id, epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.fate is not Fate.OPEN:
            if transaction is not None and transaction.unmarked:
                self._mark_all(transaction)
                return ErrorCode.CONCURRENT_TRANSACTIONS
            transaction = self._transactions[transactional_id] = Transaction(transactional_id)
            self._added[transactional_id] = set()
        self._added[transactional_id] |= logs
        return ErrorCode.NONE

    def _produce(self, request: Produce) -> ProduceResponse:
        answers = {}
        for place, (head, data) in request.batches.items():
            log = place[0]
            (epoch,) = struct.unpack_from(">h", head, _EPOCH_AT)
            code: int = ErrorCode.NONE
            if self.implicit:
                code = self._add(request.transactional_id, epoch, {log})
            elif not self.holds(request.transactional_id, epoch):
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            if not code:
                transaction = self._transactions[request.transactional_id]
                assert log in self._added[request.transactional_id], "the partition is in no transaction"
                record = self._kept[int(data)]
                transaction.unmarked.add(log)
                transaction.records.append((log, record))
                self.logs[log].entries.append(Entry(transaction, record))
            answers[place] = BatchResponse(code)
        return ProduceResponse(0, answers)

    def _end(self, request: EndTransaction) -> IdentityResponse:
        """Decided when it is answered; readers see it when the markers are written."""
        own = request.transactional_id
        if not self.holds(own, request.epoch):
            return IdentityResponse(0, ErrorCode.INVALID_PRODUCER_EPOCH, -1, -1)
        if request.implicit:
            self._epochs[own] += 1
        transaction = self._transactions.get(own)
        if transaction is not None and transaction.fate is Fate.OPEN:
            self._decide(transaction, Fate.COMMITTED if request.committed else Fate.ABORTED)
            if request.committed:
                self._on_commit(transaction.records)
        return IdentityResponse(0, 0, _PRODUCER, self._epochs[own])

    def arrive_late(self, transactional_id: str, log: str, record: object) -> None:
        """The id's transaction timed out, if one was open, and then a request of it arrives around a broker's crash.

        No coordinator knows of what it opens: it hangs on that log (KIP-664). With transactions v2, the log's leader
        asks the coordinator, and refuses it.
        """
        before = self._transactions.pop(transactional_id, None)
        if before is not None and before.fate is Fate.OPEN:
            self._epochs[transactional_id] += 1
            self._decide(before, Fate.ABORTED)
        if before is not None and before.unmarked:
            self._mark_all(before)
        if self.implicit:
            return
        hanging = Transaction(transactional_id, records=[(log, record)], unmarked={log})
        self._hanging.append(hanging)
        self.logs[log].entries.append(Entry(hanging, record))

    def end_leftovers(self, transactional_id: str) -> None:
        """A marker on each log where something of this id hangs, after its `init` and before it writes again."""
        for hanging in [one for one in self._hanging if one.owner == transactional_id]:
            (log,) = hanging.unmarked
            self._end_hanging(hanging, Fate.ABORTED)
            self.logs[log].entries.append(Entry(hanging, None))

    def _end_hanging(self, hanging: Transaction, fate: Fate) -> None:
        hanging.fate = fate
        hanging.unmarked.clear()
        self._hanging.remove(hanging)
        if fate is Fate.COMMITTED:
            self._on_commit(hanging.records)

    def _decide(self, transaction: Transaction, fate: Fate) -> None:
        transaction.fate = fate
        self._decided.append(transaction)

    def _mark_all(self, transaction: Transaction) -> None:
        for log in sorted(transaction.unmarked):
            transaction.unmarked.discard(log)
            self.logs[log].entries.append(Entry(transaction, None))
            for hanging in [one for one in self._hanging if one.owner == transaction.owner and log in one.unmarked]:
                self._end_hanging(hanging, transaction.fate)  # a partition knows producers, not transactions
        self._decided.remove(transaction)

    def write_markers(self, which: int | None = None) -> None:
        """The coordinator's later half, of one decided transaction, or of all."""
        if self._decided and which is not None:
            self._mark_all(self._decided[which % len(self._decided)])
        elif which is None:
            for transaction in list(self._decided):
                self._mark_all(transaction)
