"""What the attempts of one process read together: the config topic, and what they ask the brokers for at a start.

Each attempt's answer is as new as if it had asked alone (`Gathering`). So no order of its start changes, only the
number of clients, logins and requests. A thread follows the config topic, so that a pause, a stop or a newer generation
reaches each attempt within milliseconds, even while its plugin waits for the source.
"""

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from ringfence.connectors.sdk import worker_limits
from ringfence.fencing.clock import Deadline, boot_seconds
from ringfence.fencing.errors import FencingError, Retriable, TopicLost, Unreadable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.client_pool import ClientPool, login_of
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.open_transactions import Hanging, HangingProber
from ringfence.fencing.kafka.topic_admin import TopicWatch, topic_ids
from ringfence.fencing.leader.older_epochs import Epochs
from ringfence.fencing.offsets.source_offsets import OffsetsSnapshot, SourceOffsets
from ringfence.fencing.offsets.tails import TailRequest, read_tails
from ringfence.fencing.records.writable_topics import OffsetsTopics
from ringfence.fencing.topics import log_levels
from ringfence.fencing.topics.cluster_state import apply_connector
from ringfence.fencing.topics.config_log import TRUSTED_SECONDS
from ringfence.fencing.topics.config_records import LOGGER, connector_of, decode
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.fencing.topics.topic_ids import Topics
from ringfence.fencing.topics.topic_log import PATIENCE_SECONDS, ReadingTurns, TopicLog

_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")


class _Asker(Generic[_Question, _Answer]):
    def __init__(self, question: _Question) -> None:
        self.question = question
        self.answers: list[_Answer] = []
        """One, once it is there."""


class Gathering(Generic[_Question, _Answer]):
    """Answers the questions of several threads, one group of them at a time. Thread-safe."""

    def __init__(self, answer: Callable[[Sequence[_Question]], Sequence[_Answer]]) -> None:
        """answer: returns the answers to these questions, in their order. It runs on the thread of one who asks."""
        self._answer = answer
        self._condition = threading.Condition()
        self._waiting: list[_Asker[_Question, _Answer]] = []
        self._is_busy = False

    def ask(self, question: _Question) -> _Answer:
        """Return the answer. Raises what `answer` raises on this thread; the others of the group then ask again."""
        me: _Asker[_Question, _Answer] = _Asker(question)
        with self._condition:
            self._waiting.append(me)
            self._condition.wait_for(lambda: me.answers or not self._is_busy)
            if me.answers:
                return me.answers[0]
            self._is_busy = True
            group, self._waiting = self._waiting, []
        try:
            for each, answer in zip(group, self._answer([each.question for each in group]), strict=True):
                each.answers.append(answer)
        finally:
            with self._condition:
                self._is_busy = False
                self._waiting = [each for each in group if each is not me and not each.answers] + self._waiting
                self._condition.notify_all()
        return me.answers[0]


log = logging.getLogger(__name__)

_TURN_SECONDS: Final = 0.05
_CALM_SECONDS: Final = 0.25


class Attempt(Protocol):
    """What an attempt takes from the follower. Its methods are called on any thread, one at a time."""

    @property
    def connector(self) -> ConnectorName: ...

    @property
    def is_calm(self) -> bool:
        """Whether nobody waits for news of it."""
        ...

    def take(self, state: ConnectorState, offsets_topics: frozenset[str]) -> None:
        """Take the connector's new state, and all connectors' offsets topics."""

    def lose(self, why: str) -> None:
        """End: what is known of the topic can no longer be relied on."""

    def turn(self) -> None:
        """Called after each look at the topic, on the follower's thread."""


class ConfigFollower:
    """The config topic as one process reads it. Thread-safe."""

    def __init__(self, connection: Connection, topics: Topics, *, keeps_all: bool = False) -> None:
        """keeps_all: attempts join at any time. Otherwise it knows only connectors that have joined before the first
        `refresh`.
        """
        self._connection = connection
        self._keeps_all = keeps_all
        self._log = TopicLog(connection, topics.config, patience_s=PATIENCE_SECONDS, keep_reader=True)
        ids = {topics.config: topics.config_id, topics.offsets: topics.offsets_id}
        self._topics = {name: topic_id for name, topic_id in ids.items() if topic_id}
        self._watch = TopicWatch(connection, self._topics)
        self._stable: dict[ConnectorName, ConnectorState] = {}
        """Without records that the log holds ahead of its position, which come again."""
        self._ahead: dict[ConnectorName, ConnectorState] = {}
        """With them, of connectors that have some."""
        self._offsets_topics = OffsetsTopics()
        self._attempts: dict[ConnectorName, list[Attempt]] = {}
        self._read_at = boot_seconds()
        self._is_read = threading.Event()
        self._turns = ReadingTurns()
        self._lock = threading.RLock()
        """Of the states and the attempts that know them."""
        self._turning = threading.Lock()
        """Held while an attempt has its turn: one that has left has none any more."""
        self._refreshes = Gathering(self._refresh)
        self._checks = Gathering(self._check)
        self._parent = os.getppid()
        self._closing = self._is_over = False
        self._thread = threading.Thread(target=self._follow, name="config-follower", daemon=True)

    @property
    def is_over(self) -> bool:
        """Whether its attempts had to end: what it knows of the topic can no longer be relied on."""
        return self._is_over

    def start(self) -> None:
        """Start the thread, once. It follows the topic as soon as somebody has read it (`refresh`)."""
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()

    def join(self, attempt: Attempt) -> None:
        """Let the attempt know the state from now on. It does not join twice."""
        with self._lock:
            self._attempts.setdefault(attempt.connector, []).append(attempt)
            attempt.take(self._state(attempt.connector), self._offsets_topics.names)
            if self._is_over:
                attempt.lose("what was read of the config topic can no longer be relied on")

    def leave(self, attempt: Attempt) -> None:
        """Do not tell the attempt anything more. The last one ends the follower, unless it keeps all."""
        with self._turning, self._lock:
            attempts = self._attempts.get(attempt.connector, [])
            if attempt in attempts:
                attempts.remove(attempt)
            if not attempts:
                self._attempts.pop(attempt.connector, None)
            is_last = not self._attempts and not self._keeps_all
        if is_last:
            self.close()

    def refresh(self, deadline: Deadline) -> None:
        """Let all attempts know the state at the current end of the config topic (invariant 6)."""
        self._refreshes.ask(deadline)

    def check_topics(self, deadline: Deadline) -> None:
        """Lose the attempts if the config or offsets topic is not the one that they were created for: then what was
        read there means nothing. Call it after reading; topic ids are never reused.
        """
        self._checks.ask(deadline)

    def close(self) -> None:
        """End the thread and close the consumer."""
        self._closing = True
        if self._thread.is_alive():
            self._thread.join(5)

    def _refresh(self, deadlines: Sequence[Deadline]) -> Sequence[None]:
        deadline = deadlines[0]
        with self._turns.read():
            try:
                self._take(self._log.catch_up(deadline))
                self._note_reading()
            except TopicLost as error:
                self._lose(str(error))
        self._is_read.set()
        self._check([deadline])
        return [None] * len(deadlines)

    def _check(self, deadlines: Sequence[Deadline]) -> Sequence[None]:
        if self._topics:
            ids = topic_ids(self._connection, list(self._topics), deadlines[0])
            self._compare({name: id_ for name, id_ in ids.items() if id_ != self._topics[name]})
        return [None] * len(deadlines)

    def _compare(self, odd: Mapping[str, str | None]) -> None:
        for name, topic_id in odd.items():
            self._lose(f"topic {name} is gone" if topic_id is None else f"topic {name} was deleted and created again")

    def _note_reading(self) -> None:
        """Note that the topic was read now. If the last read is longer ago than tombstones are kept, some may be
        missed.
        """
        if (asleep := boot_seconds() - self._read_at) > TRUSTED_SECONDS:
            self._lose(f"it was suspended for {asleep / 60:.0f} minutes")
        self._read_at = boot_seconds()

    def _lose(self, why: str) -> None:
        self._is_over = True
        for attempt in self._each():
            attempt.lose(why)

    def _each(self) -> Iterator[Attempt]:
        with self._lock:
            return iter([attempt for attempts in self._attempts.values() for attempt in attempts])

    def _state(self, connector: ConnectorName) -> ConnectorState:
        return self._ahead.get(connector) or self._stable.get(connector) or ConnectorState(connector)

    def _take(self, records: Iterable[LogRecord]) -> None:
        new: list[LogRecord] = []
        try:
            for record in records:
                new.append(record)
        finally:
            self._apply(new)

    def _apply(self, records: Sequence[LogRecord]) -> None:
        with self._lock:
            names, changed = self._offsets_topics.names, set(self._ahead)
            for record in records:
                if record.key is not None and record.key.startswith(LOGGER.encode()):
                    self._set_level(record)
                changed |= self._put(record, self._stable, self._stable.get)
            self._ahead = {}
            positions = self._log.positions
            for record in self._log.ahead:
                if record.offset >= positions[record.partition]:
                    changed |= self._put(record, self._ahead, self._state)
            if self._offsets_topics.names != names:
                worker_limits.set_offsets_topics(self._offsets_topics.names)  # for tasks that read Kafka
                changed = set(self._attempts)
            for connector in changed & self._attempts.keys():
                for attempt in self._attempts[connector]:
                    attempt.take(self._state(connector), self._offsets_topics.names)

    def _put(
        self,
        record: LogRecord,
        states: dict[ConnectorName, ConnectorState],
        find: Callable[[ConnectorName], ConnectorState | None],
    ) -> set[ConnectorName]:
        """Apply the record to the state that `find` returns. Return whose it is, if that is one to know."""
        self._offsets_topics.apply(record)
        connector = None if record.key is None else connector_of(record.key)
        if connector is None or not (self._keeps_all or connector in self._attempts):
            return set()
        state = self._after(find(connector) or ConnectorState(connector), record)
        if state.is_blank and states is self._stable:
            states.pop(connector, None)
        else:
            states[connector] = state
        return {connector}

    def _after(self, state: ConnectorState, record: LogRecord) -> ConnectorState:
        try:
            return apply_connector(state, record.offset, decode(record.key, record.value))
        except Unreadable as error:
            # The leader stops this connector and reports why; its attempts end, unless a newer configuration follows.
            return replace(state, unreadable=f"{self._log.topic}@{record.offset}: {error}")

    def _set_level(self, record: LogRecord) -> None:
        if not self._is_read.is_set():
            return  # older than this process
        try:
            config_record = decode(record.key, record.value)
        except Unreadable as error:
            log.warning("%s@%d: %s", self._log.topic, record.offset, error)
            return
        if isinstance(config_record, LoggerRecord):
            log_levels.apply(config_record)

    def _follow(self) -> None:
        try:
            while not self._closing and (self._attempts or not self._is_over):
                self._turn()
        except Exception:
            # The root of the thread. An attempt that cannot learn that it is superseded must not continue.
            log.exception("The config topic cannot be followed any more; the attempts end and are placed again")
            self._lose("the config topic cannot be followed any more")
            self._tell_turn()
        self._log.close()

    def _turn(self) -> None:
        if self._is_read.wait(_TURN_SECONDS):
            try:
                with self._turns.follow():
                    self._take(self._log.follow(self._find_patience()))
                    self._note_reading()
                self._compare(self._watch.look(time.monotonic()))
            except Retriable as error:
                log.info("%s", error)
        if os.getppid() != self._parent:
            self._lose("the process that started this task is gone")
        self._tell_turn()

    def _find_patience(self) -> float:
        """Return how many seconds to wait for a record. Waiting on is most of what a task costs that has nothing to do;
        but who refreshes, or ends an attempt, waits for it.
        """
        return _CALM_SECONDS if all(attempt.is_calm for attempt in self._each()) else _TURN_SECONDS

    def _tell_turn(self) -> None:
        for attempt in self._each():
            with self._turning:
                if attempt not in self._attempts.get(attempt.connector, ()):
                    continue
                try:
                    attempt.turn()
                except Exception:
                    log.exception("An attempt of %s cannot follow the config topic", attempt.connector)
                    attempt.lose("it cannot follow the config topic any more")


_clients: Final = ClientPool(HangingProber)


class JointReads:
    """Thread-safe."""

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self.follower = ConfigFollower(connection, topics, keeps_all=True)
        self._lock = threading.Lock()
        self._tails: dict[Hashable, Gathering[TailRequest, SourceOffsets | None]] = {}
        self._probes: dict[Hashable, Gathering[frozenset[str], Sequence[Hanging]]] = {}

    def read_offsets(
        self,
        connection: Connection,
        topic: str,
        snapshot: OffsetsSnapshot,
        give_up: Callable[[], bool],
        deadline: Deadline,
    ) -> SourceOffsets | None:
        """Return the committed offsets of the snapshot's connector at the current end of the topic; None if the
        snapshot does not help.
        """
        key = login_of(connection), topic
        with self._lock:
            gathering = self._tails.get(key)
            if gathering is None:
                gathering = self._tails[key] = Gathering(partial(read_tails, connection, topic))
        return gathering.ask(TailRequest(snapshot, give_up, deadline))

    def has_leftovers(self, connection: Connection, topics: Collection[str], epochs: Epochs) -> bool:
        """Return whether a transaction of an older epoch may be open on these topics. If that cannot be found out with
        this connection, one may be.
        """
        if not (topics and epochs):
            return False
        key = login_of(connection)
        with self._lock:
            gathering = self._probes.get(key)
            if gathering is None:
                gathering = self._probes[key] = Gathering(partial(_find_open, connection))
        try:
            transactions = gathering.ask(frozenset(topics))
        except FencingError:
            return True
        return any(each.epoch < epochs.get(each.producer_id, -1) for each in transactions)


def _find_open(connection: Connection, questions: Sequence[frozenset[str]]) -> Sequence[Sequence[Hanging]]:
    """Return the open transactions on each of these sets of topics."""
    topics = frozenset[str]().union(*questions)
    by_topic: dict[str, list[Hanging]] = defaultdict(list)
    for each in _clients.call(connection, lambda prober: prober.open_on(topics)):
        by_topic[each.topic].append(each)
    return [[each for topic in question for each in by_topic.get(topic, ())] for question in questions]
