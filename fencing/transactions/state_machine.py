"""What a transactional producer sends, and what it makes of the answers. Pure: requests out; answers and time in.

Transactions v2 (KIP-890): each transaction has an epoch of its own, which EndTxn's answer gives. A late copy of any
request is refused, so a request without an answer is sent again until it has one, and an abort need not wait for
anything. Older brokers (KIP-98, KIP-360): the epoch is the same for many transactions, and a copy could join a later
one. So after a transaction with a request that had no answer, and after each abort, the producer takes a new epoch
before it begins another one. An abort with a batch that may still arrive ends the producer: only the next one's
InitProducerId, while the transaction is open, shuts that batch out.

Who drives it calls `poll` after every change, sends what it returns, and passes on what became of each request.
Times are those of a monotonic clock.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from math import inf
from typing import Final

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.errors import Abortable, Fatal, Fenced, FencingError, UnknownOutcome
from ringfence.fencing.transactions.error_codes import (
    LOWERED,
    OF_COORDINATOR,
    OF_LEADER,
    OF_MEMBER,
    OF_METADATA,
    ErrorCode,
    Meaning,
    error_of,
    meaning_of,
    name_of,
)
from ringfence.fencing.transactions.group_offsets import GroupOffsets
from ringfence.fencing.transactions.messages import (
    GROUP_KEY,
    TRANSACTION_KEY,
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
    GroupMember,
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
from ringfence.fencing.transactions.partition_queue import PartitionQueue, PartitionQueues, QueuedBatch
from ringfence.fencing.transactions.record_batches import RecordBatch, split
from ringfence.fencing.transactions.steps import PASSING, Limits, Outgoing, Phase, Step
from ringfence.fencing.transactions.topic_view import NoSuchPartition, TopicView

_MISSING: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
TOO_LARGE: Final = ErrorCode.MESSAGE_TOO_LARGE.name
"""The code of errors about records that are larger than the producer or their topic accepts."""
_MARKERS_SECONDS: Final = 0.02
"""So long after a transaction's end, its markers may still be missing."""
LEADERS_WAIT: Final = "add.partitions.to.txn.retry.backoff.ms"
"""The broker's setting: a partition leader that is to begin a transaction before the last one's markers are written
waits so long by itself. The coordinator refuses at once, so where leaders wait long, it is asked first, and again after
a millisecond. With Kafka's default, 20 ms, this is the difference between 23 and 2 ms at 200 transactions a second.
"""
DEFAULT_WAIT_MS: Final = 20
SHORT_WAIT_MS: Final = 5
"""Up to which the leader is left to wait: the other request would cost a third of a small transaction's CPU time."""


class StateMachine:
    """One producer. `error`: why the transaction cannot be committed, or, in the phase OVER, why the producer ended."""

    def __init__(self, transactional_id: str, timeout_ms: int, limits: Limits | None = None) -> None:
        """timeout_ms: of the transactions."""
        self.transactional_id = transactional_id
        self.phase = Phase.NEW
        self.error: FencingError | None = None
        self.producer_id = self.epoch = -1
        self.implicit = False
        """Transactions v2: partitions are added by Produce requests, and each transaction has its own epoch."""
        self.adds_first = False
        """With transactions v2, begin by a request that adds partitions all the same: see `LEADERS_WAIT`."""
        self.addresses: dict[int, tuple[str, int]] = {}
        self.refusals = 0
        self.last_refusal = 0.0, ""
        """When a broker last refused something that is asked again, and what; monotonic."""
        """How often a transaction's start was refused, because the last one's markers were not written."""
        self._timeout_ms = timeout_ms
        self._limits = limits or Limits()
        self.view = TopicView(self._limits.metadata_s)
        self._wants_implicit: bool | None = None
        self._numbers = count()
        self._pending: dict[int, Outgoing] = {}
        self._carried: dict[int, dict[Place, QueuedBatch]] = {}
        self._in_flight: dict[int, int] = {}  # Produce requests by node
        self._muted_until: dict[int, float] = {}
        self.queues = PartitionQueues(self._limits.delivery_s)
        self._added: set[Place] = set()
        self._used_places: dict[Place, int] = {}  # in this transaction, with the offset of the first batch
        self._init_due = self._continues = self._looks_up = False
        self._maybe_open = False  # whether the coordinator may know of the transaction
        self._doubtful = False  # whether a request of this epoch had no answer
        self._commit_requested = False
        self._end_unanswered = False
        self._coordinator: int | None = None
        self.group = GroupOffsets()
        self.steps: defaultdict[object, Step] = defaultdict(Step)
        self._ended_at = -inf
        self._leaders_wait_ms = DEFAULT_WAIT_MS
        self._asks_for_wait: bool | None = None  # False: it is known, or cannot be

    # What the application asks for.

    def use_version(self, implicit: bool) -> None:
        """Use transactions v2, or not, from the next transaction on."""
        self._wants_implicit = implicit
        if self.phase is Phase.NEW:
            self.implicit = implicit

    @property
    def takes_epoch(self) -> bool:
        """Whether a new epoch is being taken, before anything is written."""
        return self._init_due

    def look_up(self, topics: Iterable[str]) -> None:
        """Find the coordinator and these topics, before anything else is asked for."""
        self._looks_up = True
        for topic in topics:
            self.view.want(topic)

    @property
    def knows_coordinator(self) -> bool:
        return self._coordinator is not None

    def initialise(self) -> None:
        """Take the transactional id, and end its open transaction. The phase READY follows."""
        self._init_due, self._continues = True, False

    def begin(self, now: float) -> None:
        """Begin a transaction, of which the brokers hear with its first record. Raises the producer's error."""
        if self.error is not None:
            raise self.error
        assert self.phase is Phase.READY, self.phase
        if self._wants_implicit not in (None, self.implicit):
            self.implicit = bool(self._wants_implicit)
            self._require_epoch()
        self.phase = Phase.OPEN
        self._choose_first_request(now)
        self._maybe_open = False
        self._commit_requested = self._end_unanswered = False
        self._added.clear()
        self._used_places.clear()
        self.group.begin()

    def _choose_first_request(self, now: float) -> None:
        follows = now - self._ended_at < _MARKERS_SECONDS
        self.adds_first = follows and self._leaders_wait_ms > SHORT_WAIT_MS
        if follows and self._asks_for_wait is None:
            self._asks_for_wait = True

    def add(self, place: Place, batch: RecordBatch, now: float) -> None:
        """Write a batch in the open transaction, after all earlier ones of its partition."""
        if self.error is not None:
            raise self.error
        assert self.phase is Phase.OPEN, self.phase
        self.queues.add(place, batch, now)
        self.view.want(place[0])

    def send_offsets(self, member: GroupMember, offsets: Mapping[Place, int]) -> None:
        """Commit a group's offsets with the transaction. `group.done` becomes true when the group has them."""
        if self.error is not None:
            raise self.error
        assert self.phase is Phase.OPEN, self.phase
        self.group.start(member, offsets)

    def commit(self) -> None:
        """Commit when everything is written. The phase READY follows, or `error` is set."""
        if self.error is not None:
            raise self.error
        assert self.phase is Phase.OPEN, self.phase
        self.phase = Phase.COMMITTING

    def abort(self) -> None:
        """Abort the transaction, also after an `Abortable` error. The phase READY follows, or OVER."""
        if self.phase is Phase.OVER:
            return
        assert self.phase in (Phase.OPEN, Phase.COMMITTING), self.phase
        if self._commit_requested:
            self._finish(UnknownOutcome(f"{self._doing}: a commit has no answer, and may still succeed"))
            return
        self.phase = Phase.ABORTING
        self.group.begin()
        if self.implicit or not self._maybe_open:
            self.queues.drop()

    # Requests.

    def poll(self, now: float) -> list[Outgoing]:
        """Return the requests to send now."""
        out: list[Outgoing] = []
        if self.phase is Phase.OVER:
            return out
        self._expire(now)
        self._ask_for_topics(out, now)
        if self._init_due:
            if self._knows_coordinator(out, now):
                where = (self.producer_id, self.epoch) if self._continues else (-1, -1)
                request = InitProducerId(self.transactional_id, self._timeout_ms, *where)
                self._send_step(out, now, self._coordinator, request)
            return out
        if self._looks_up and self._knows_coordinator(out, now):
            self._looks_up = False
        if self.phase in (Phase.OPEN, Phase.COMMITTING) and self.error is None:
            self._write(out, now)
            self._write_offsets(out, now)
            if self._asks_for_wait and self._coordinator is not None:
                self._send_step(out, now, self._coordinator, BrokerSetting(self._coordinator, LEADERS_WAIT))
        if self.phase is Phase.COMMITTING and self.error is None and self._all_written():
            self._end(out, now, committed=True)
        elif self.phase is Phase.ABORTING:
            self._abort(out, now)
        return out

    def next_time(self, now: float) -> float | None:
        """Return when `poll` has something to do without an answer; None if never."""
        times = [step.not_before for step in self.steps.values()]
        times += (self.queues.next_deadline, *self._muted_until.values())
        times += [queue.not_before for queue in self.queues.busy.values()]
        return min((each for each in times if now < each < inf), default=None)

    def _all_written(self) -> bool:
        return not self.queues.busy and self.group.done

    def _abort(self, out: list[Outgoing], now: float) -> None:
        if not self.implicit and self._carried:
            return  # a batch must not arrive after the abort
        if not self.implicit and self.queues.doubtful:
            self._finish(Abortable(f"{self._doing}: records may still arrive, so another producer has to end it"))
            return
        self.queues.drop()
        if self.steps[AddPartitions].under_way or self.steps[AddOffsets].under_way:
            return
        self._end(out, now, committed=False)

    def _end(self, out: list[Outgoing], now: float, *, committed: bool) -> None:
        if not self._maybe_open:
            self._settle()
        elif self._knows_coordinator(out, now):
            who = self.transactional_id, self.producer_id, self.epoch
            self._commit_requested = committed
            self._send_step(out, now, self._coordinator, EndTransaction(*who, committed, self.implicit))

    def _write(self, out: list[Outgoing], now: float) -> None:
        if not self.queues.busy:
            return
        if not self.implicit or (self.adds_first and not self._added):
            self._add_partitions(out, now)
        while self._produce(out, now):
            pass

    def _add_partitions(self, out: list[Outgoing], now: float) -> None:
        places = [place for place in self.queues.busy if place not in self._added]
        missing = [place for place in places if self._leader_of(place, now) >= 0]
        if missing and self.steps[AddPartitions].ready(now) and self._knows_coordinator(out, now):
            request = AddPartitions(self.transactional_id, self.producer_id, self.epoch, missing)
            self._send_step(out, now, self._coordinator, request)

    def _produce(self, out: list[Outgoing], now: float) -> bool:
        """Add one request to each leader with batches that may be sent. Return whether there was any."""
        by_node: dict[int, dict[Place, QueuedBatch]] = {}
        sizes: dict[int, int] = {}
        for place, queue in self.queues.busy.items():
            if not queue.can_send(now) or not self._is_added(place):
                continue
            node = self._leader_of(place, now)
            if node < 0 or self._is_muted(node, now) or self._in_flight.get(node, 0) >= self._limits.in_flight:
                continue
            size = queue.waiting[0].batch.size
            if node in sizes and sizes[node] + size > self._limits.request_bytes:
                continue
            sizes[node] = sizes.get(node, 0) + size
            by_node.setdefault(node, {})[place] = queue.send(self.producer_id, self.epoch)
        for node, carried in by_node.items():
            self._maybe_open = True
            batches = {place: (each.head, each.batch.data) for place, each in carried.items()}
            ids = {topic: self.view.topics[topic].id for topic, _ in carried}
            request = Produce(self.transactional_id, self._limits.request_ms, batches, self.implicit, ids)
            self._carried[self._send(out, node, request)] = carried
            self._in_flight[node] = self._in_flight.get(node, 0) + 1
        return bool(by_node)

    def _is_added(self, place: Place) -> bool:
        return place in self._added or (self.implicit and (bool(self._added) or not self.adds_first))

    def _leader_of(self, place: Place, now: float) -> int:
        """Return the partition's leader, -1 for none."""
        try:
            return self.view.leader_of(place, now)
        except NoSuchPartition as error:
            self._fail(
                Fatal(
                    f"A record names partition {place[1]} of topic {place[0]}, which has {error.count}. Add partitions "
                    "to the topic, or change what sets the record's partition"
                )
            )
            return -1

    def _write_offsets(self, out: list[Outgoing], now: float) -> None:
        if self.group.done:
            return
        request = self.group.next_request((self.transactional_id, self.producer_id, self.epoch), self.implicit)
        if isinstance(request, FindCoordinator):
            self._send_step(out, now, None, request, GROUP_KEY)
        elif isinstance(request, CommitOffsets):
            self._send_step(out, now, self.group.coordinator, request)
        elif self._knows_coordinator(out, now):
            self._send_step(out, now, self._coordinator, request)

    def _knows_coordinator(self, out: list[Outgoing], now: float) -> bool:
        if self._coordinator is not None:
            return True
        self._send_step(out, now, None, FindCoordinator(self.transactional_id, TRANSACTION_KEY), TRANSACTION_KEY)
        return False

    def _ask_for_topics(self, out: list[Outgoing], now: float) -> None:
        if topics := self.view.list_due(now):
            self._send_step(out, now, None, Metadata(topics))

    def _send_step(
        self, out: list[Outgoing], now: float, node: int | None, request: Request, kind: object = None
    ) -> None:
        step = self.steps[kind or type(request)]
        if not step.ready(now) or (node is not None and self._is_muted(node, now)):
            return
        step.under_way = True
        if isinstance(request, AddPartitions | AddOffsets | CommitOffsets):
            self._maybe_open = True
        self._send(out, node, request)

    def _send(self, out: list[Outgoing], node: int | None, request: Request) -> int:
        one = Outgoing(next(self._numbers), node, request)
        self._pending[one.number] = one
        out.append(one)
        return one.number

    def _is_muted(self, node: int, now: float) -> bool:
        return now < self._muted_until.get(node, 0.0)

    # Answers.

    def take_answer(self, number: int, response: Response, now: float) -> None:
        """Take the answer to a request."""
        outgoing = self._pending.pop(number, None)
        if outgoing is None or self.phase is Phase.OVER:
            return
        if response.throttle_ms > 0 and outgoing.node is not None:
            muted = now + response.throttle_ms / 1000
            self._muted_until[outgoing.node] = max(muted, self._muted_until.get(outgoing.node, 0.0))
        if isinstance(response, ProduceResponse):
            self._take_written(outgoing, response, now)
        else:
            self._take_step(outgoing.request, response, now)

    def _take_step(self, request: Request, response: Response, now: float) -> None:
        match request, response:
            case Metadata(), MetadataResponse():
                self._take_metadata(request, response, now)
            case FindCoordinator(), CoordinatorResponse():
                self._take_coordinator(request, response, now)
            case InitProducerId(), IdentityResponse():
                self._take_identity(request, response, now)
            case AddPartitions(), CodesResponse():
                self._take_added(request, response, now)
            case AddOffsets(), ErrorResponse():
                self._take_added_group(response, now)
            case CommitOffsets(), CodesResponse():
                self._take_group(request, response, now)
            case EndTransaction(), IdentityResponse():
                self._take_end(request, response, now)
            case BrokerSetting(), SettingResponse():
                self.steps[BrokerSetting].reset()
                self._asks_for_wait = False
                self._leaders_wait_ms = int(response.value or DEFAULT_WAIT_MS)

    def note_unanswered(self, number: int, now: float) -> None:
        """A request has no answer: it may have been carried out, or still arrive."""
        outgoing = self._pending.get(number)
        if outgoing is None:
            return
        if not isinstance(outgoing.request, Metadata | FindCoordinator | BrokerSetting):
            self._note_doubt(outgoing)
        self.note_unsent(number, now)

    def note_unsent(self, number: int, now: float) -> None:
        """A request did not reach its broker, and never will."""
        outgoing = self._pending.pop(number, None)
        if outgoing is None:
            return
        match outgoing.request:
            case Produce():
                self._release(outgoing)
                for place, batch in self._carried.pop(number, {}).items():
                    self.view.refresh(place[0])
                    if batch in (queue := self.queues[place]).in_flight:
                        queue.put_back(batch, now + self._limits.unreached.pause(batch.failures + 1))
            case FindCoordinator() as request:
                self.steps[request.kind].again(now, self._limits.unreached)
            case CommitOffsets():
                self.group.coordinator = None
                self.steps[CommitOffsets].again(now, self._limits.unreached)
            case request:
                if not isinstance(request, Metadata | BrokerSetting):
                    self._coordinator = None
                self.steps[type(request)].again(now, self._limits.unreached)

    def _note_doubt(self, outgoing: Outgoing) -> None:
        self._doubtful = True
        self._end_unanswered |= isinstance(outgoing.request, EndTransaction)
        for batch in self._carried.get(outgoing.number, {}).values():
            batch.doubtful = True

    def _release(self, outgoing: Outgoing) -> None:
        assert outgoing.node is not None
        self._in_flight[outgoing.node] -= 1

    def _take_metadata(self, request: Metadata, response: MetadataResponse, now: float) -> None:
        self.addresses.update(response.brokers)
        step = self.steps[Metadata]
        failures = step.failures
        step.reset()
        waits = False
        for name in request.topics:
            topic = response.topics.get(name, TopicMetadata(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            if topic.error == ErrorCode.NONE and topic.leaders:
                if self.view.take(name, topic, now):
                    self._note_other_topic(name)
                waits |= -1 in topic.leaders
                continue
            waits = True
            self.last_refusal = now, f"topic {name}: {_in_words(topic.error)}"
            if topic.error in _MISSING and self.view.note_missing(name, now):
                self._note_deleted_topic(name)
            meaning = meaning_of(topic.error, OF_METADATA)
            if meaning is not Meaning.RETRY and topic.error != ErrorCode.NONE:
                self.view.forget(name)
                if self.phase in (Phase.OPEN, Phase.COMMITTING):
                    self._fail(self._error(topic.error, meaning, f"topic {name}"))
        if waits:
            step.failures = failures
            step.again(now, self._limits.passing)

    def _note_deleted_topic(self, name: str) -> None:
        if self.phase in (Phase.OPEN, Phase.COMMITTING) and any(place[0] == name for place in self.queues.busy):
            text = f"{self._doing}: topic {name} was deleted. Create it again, or write to another one"
            self._fail(Abortable(text, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name))

    def _note_other_topic(self, name: str) -> None:
        """What is not written yet goes to the new topic."""
        used = any(place[0] == name for place in self._used_places) or any(
            place[0] == name and any(each.doubtful for each in (*queue.in_flight, *queue.waiting))
            for place, queue in self.queues.busy.items()
        )
        if used and self.phase in (Phase.OPEN, Phase.COMMITTING):
            text = f"{self._doing}: topic {name} was deleted and created again, and its records with it"
            self._fail(Abortable(text, ErrorCode.UNKNOWN_TOPIC_ID.name))

    def _take_coordinator(self, request: FindCoordinator, response: CoordinatorResponse, now: float) -> None:
        step = self.steps[request.kind]
        if response.error == ErrorCode.NONE:
            step.reset()
            self.addresses[response.node] = response.host, response.port
            if request.kind == TRANSACTION_KEY:
                self._coordinator = response.node
            else:
                self.group.coordinator = response.node
            return
        meaning = meaning_of(response.error, OF_COORDINATOR)
        step.again(now, self._limits.passing)
        if meaning not in (Meaning.RETRY, Meaning.REFRESH):
            self._fail(self._error(response.error, meaning, "looking up the coordinator"))

    def _again(self, kind: type, code: int, meaning: Meaning, now: float) -> bool:
        """Return whether the request of a coordinator is to be repeated, which is noted."""
        if meaning is Meaning.REFRESH:
            self._coordinator = None
        if meaning in (Meaning.RETRY, Meaning.REFRESH):
            self.last_refusal = now, f"the coordinator: {_in_words(code)}"
            self.steps[kind].again(now, self._pauses_after(code), code)
            return True
        self.steps[kind].reset()
        return False

    def _pauses_after(self, code: int) -> Backoff:
        """The markers of the last transaction are there in a moment, whatever is to be waited for after other
        refusals.
        """
        return PASSING if code == ErrorCode.CONCURRENT_TRANSACTIONS else self._limits.passing

    def _take_identity(self, init: InitProducerId, response: IdentityResponse, now: float) -> None:
        if response.error == ErrorCode.NONE:
            self.steps[InitProducerId].reset()
            self._take_epoch(response.producer_id, response.epoch)
            self._init_due = False
            if self.phase is Phase.NEW:
                self.phase = Phase.READY
            return
        meaning = meaning_of(response.error, OF_COORDINATOR)
        if not self._again(InitProducerId, response.error, meaning, now):
            what = "continuing" if init.epoch >= 0 else f"initialising, transaction timeout {self._timeout_ms} ms,"
            error = self._error(response.error, meaning, what)
            if response.error == ErrorCode.UNSUPPORTED_VERSION:
                error = Fatal(f"{error}. {LOWERED}", error.code)
            self._finish(error)

    def _take_epoch(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._doubtful = False
        self.queues.restart()

    def _take_added(self, added: AddPartitions, response: CodesResponse, now: float) -> None:
        codes = [code for code in response.codes.values() if code]
        if not codes:
            self.steps[AddPartitions].reset()
            if added.epoch == self.epoch:
                self._added.update(added.places)
            return
        # If one partition is refused, the others are not attempted.
        code = next((each for each in codes if each != ErrorCode.OPERATION_NOT_ATTEMPTED), codes[0])
        for (topic, _), each in response.codes.items():
            if each == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.view.refresh(topic)
        self._note_refusal(code)
        self._again_or_fail(AddPartitions, code, now, "adding partitions")

    def _note_refusal(self, code: int) -> None:
        if code == ErrorCode.CONCURRENT_TRANSACTIONS:
            self.refusals += 1

    def _take_added_group(self, response: ErrorResponse, now: float) -> None:
        if response.error == ErrorCode.NONE:
            self.steps[AddOffsets].reset()
            self.group.added = True
            return
        self._again_or_fail(AddOffsets, response.error, now, "adding a group's offsets")

    def _again_or_fail(self, kind: type, code: int, now: float, doing: str) -> None:
        meaning = meaning_of(code, OF_COORDINATOR)
        if not self._again(kind, code, meaning, now):
            self._fail(self._error(code, meaning, doing))

    def _take_group(self, request: CommitOffsets, response: CodesResponse, now: float) -> None:
        step = self.steps[CommitOffsets]
        code, meaning = self.group.take(request, response)
        if meaning in (Meaning.RETRY, Meaning.REFRESH):
            step.again(now, self._limits.passing)
            return
        step.reset()
        if not code:
            return
        error = self._error(code, meaning, "committing a group's offsets")
        if code not in OF_MEMBER:
            self._fail(error)
        elif self.error is None:
            # Not the end of the producer, whose id is still its own: so the transaction can be aborted.
            self.error = error

    def _take_end(self, end: EndTransaction, response: IdentityResponse, now: float) -> None:
        if response.error == ErrorCode.NONE:
            self.steps[EndTransaction].reset()
            if end.implicit:
                self._take_epoch(response.producer_id, response.epoch)
                self._ended_at = now
            elif self._doubtful or not end.committed:
                self._require_epoch()
            self._settle()
            return
        meaning = meaning_of(response.error, OF_COORDINATOR)
        if self._again(EndTransaction, response.error, meaning, now):
            return
        error = self._error(response.error, meaning, "committing" if end.committed else "aborting")
        if not end.committed:
            if response.error == ErrorCode.INVALID_TXN_STATE and not end.implicit:
                self._require_epoch()
                self._settle()  # it has not begun
            else:
                self._finish(error)
        elif response.error == ErrorCode.TRANSACTION_ABORTABLE:
            self._commit_requested = False
            self._fail(error)
        elif response.error == ErrorCode.UNKNOWN_SERVER_ERROR or (
            self._end_unanswered and not isinstance(error, Fenced)
        ):
            self._finish(UnknownOutcome(f"{error}; whether the transaction was committed is not known", error.code))
        else:
            self._finish(error)

    def _require_epoch(self) -> None:
        """Take another epoch before the next transaction (KIP-360)."""
        self._init_due = self._continues = True

    def _settle(self) -> None:
        self.phase = Phase.READY
        self.error = None
        self._maybe_open = False
        self.queues.drop()

    def _take_written(self, outgoing: Outgoing, response: ProduceResponse, now: float) -> None:
        self._release(outgoing)
        assert isinstance(outgoing.request, Produce)
        topic_ids = outgoing.request.topic_ids
        for place, batch in self._carried.pop(outgoing.number, {}).items():
            queue = self.queues[place]
            if batch not in queue.in_flight:
                continue  # of a transaction that was aborted
            answer = response.by_place.get(place, BatchResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            if answer.error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self.queues.note_written(place, batch)
                # Without topic ids, only its offsets tell that a topic was created again.
                starts_again = 0 <= answer.offset <= self._used_places.get(place, -1)
                self._used_places.setdefault(place, answer.offset)
                if starts_again or topic_ids[place[0]] != self.view.topics[place[0]].id:
                    self._note_other_topic(place[0])
                if batch.batch.reports:
                    batch.batch.report(place[1], answer.offset, answer.append_ms)
            else:
                self._take_refusal(queue, batch, answer, now)

    def _take_refusal(self, queue: PartitionQueue, batch: QueuedBatch, answer: BatchResponse, now: float) -> None:
        code = answer.error
        self._note_refusal(code)
        meaning = meaning_of(code, OF_LEADER)
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not batch.leads:
            meaning = Meaning.RETRY  # one before it was not written then
        if code == ErrorCode.UNSUPPORTED_VERSION:
            text = f"{self._doing}: the brokers' transaction.version has changed: another producer goes on with it"
            self._finish(Abortable(text, name_of(code)))
        elif code == ErrorCode.CORRUPT_MESSAGE and batch.batch.is_damaged:
            text = f"{self._doing}: records for {queue.place[0]}-{queue.place[1]} came damaged from their source"
            self._fail(Fatal(f"{text}: their checksum is another one. Look for damaged disks there", name_of(code)))
        elif code in _TOO_LARGE:
            self._take_too_large(queue, batch)
        elif meaning in (Meaning.RETRY, Meaning.REFRESH):
            if not self._may_send_again(queue, batch, code):
                return
            self.last_refusal = now, f"{queue.place[0]}-{queue.place[1]}: {_in_words(code)}"
            queue.put_back(batch, now + self._pauses_after(code).pause(batch.failures + 1))
            if meaning is Meaning.REFRESH:
                self.view.refresh(queue.place[0])
        else:
            reason = f" ({answer.message})" if answer.message else ""
            self._fail(self._error(code, meaning, f"writing to {queue.place[0]}-{queue.place[1]}{reason}"))

    def _take_too_large(self, queue: PartitionQueue, batch: QueuedBatch) -> None:
        halves = split(batch.batch)
        if halves is not None:
            queue.replace(batch, halves, self.producer_id, self.epoch)
            return
        topic, partition = queue.place
        text = (
            f"{self._doing}: a record for {topic}-{partition} takes {batch.batch.size:,} bytes in its batch, and the "
            "topic accepts fewer (MESSAGE_TOO_LARGE): raise the topic's max.message.bytes, or leave the record out"
        )
        self._fail(Fatal(text, TOO_LARGE))

    def _may_send_again(self, queue: PartitionQueue, batch: QueuedBatch, code: int) -> bool:
        """Fail if `retries` are used up. Missing markers and broken connections do not count."""
        most = self._limits.retries
        if most is None or code == ErrorCode.CONCURRENT_TRANSACTIONS:
            return True
        batch.refusals += 1
        if batch.refusals <= most:
            return True
        where = f"{queue.place[0]}-{queue.place[1]}"
        text = f"{self._doing}: records for {where} were refused {batch.refusals} times: {name_of(code)}"
        self._fail(Abortable(text, name_of(code)))
        return False

    # Ends.

    @property
    def _doing(self) -> str:
        return f"A transaction of {self.transactional_id}"

    def _error(self, code: int, meaning: Meaning, doing: str) -> FencingError:
        return error_of(code, meaning, f"{self._doing}: {doing}")

    def _fail(self, error: FencingError) -> None:
        """The transaction cannot be committed, only aborted. A fence ends the producer."""
        if isinstance(error, Fenced) or self.phase in (Phase.NEW, Phase.READY):
            self._finish(error)
        elif self.phase is not Phase.ABORTING and self.error is None:
            self.error = error

    def _finish(self, error: FencingError) -> None:
        """End the producer."""
        self.error = error
        self.phase = Phase.OVER
        self.queues.drop()

    def _expire(self, now: float) -> None:
        late = self.queues.find_late(now)
        if late is not None and self.phase in (Phase.OPEN, Phase.COMMITTING):
            text = (
                f"{self._doing}: records for {late[0]}-{late[1]} were not written within {self._limits.delivery_s:g} s"
            )
            if self.view.is_missing(late[0]):
                text = f"{text}: topic {late[0]} was not found: create it"
            self._fail(Abortable(text, "_MSG_TIMED_OUT"))


def _in_words(code: int) -> str:
    name = name_of(code)
    return f"it does not exist ({name})" if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else name
