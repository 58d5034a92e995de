"""Random schedules: writers with one transactional id, one after another and beside each other, on simulated brokers.

Each writer does what a task does: take the id, read where the last committed transaction ended, and go on from there.
So a record that is lost, doubled, torn from its transaction or visible after an abort shows in the numbers of the end:
each partition must have 0, 1, 2, ... up to the committed offset.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.transactions.messages import GroupMember, Place, Response
from ringfence.fencing.transactions.state_machine import StateMachine
from ringfence.fencing.transactions.steps import Limits, Outgoing, Phase
from tests.fencing.transactions.simulated_cluster import OFFSETS, Cluster, Events, batch_of

NewMachine = Callable[[], StateMachine]
PLACES: list[Place] = [("data", 0), ("data", 1), ("more", 0)]
_PATIENCE_S = 30.0
_REQUEST_S = 1.0


class Violation(AssertionError):
    """A guarantee does not hold."""


@dataclass
class Troubles:
    """Probabilities of what the network does to one request."""

    lost: float = 0.0
    late: float = 0.0
    answer_lost: float = 0.0
    doubled: float = 0.0
    unsent: float = 0.0


class Writer:
    """One producer, and the task that uses it. It is over when its producer is, or when it is killed."""

    def __init__(self, schedule: "Schedule", machine: StateMachine) -> None:
        self._schedule = schedule
        self._events = schedule.events
        self.machine = machine
        self.over = False
        self.frozen = False
        self.position = -1
        self._end = 0
        self._chance = schedule.chance
        self._wake_at: float | None = None
        self._stage = "init"
        self._since = self._events.now
        machine.use_version(schedule.cluster.implicit)
        machine.initialise()
        self.step()

    def step(self) -> None:
        """Let the task do what it can, and send what the producer wants to send."""
        if self.over or self.frozen:
            return
        if isinstance(self.machine.error, Fatal):
            raise Violation(f"another producer could go on: {self.machine.error}")
        self._act()
        if self._has_ended():
            return
        now = self._events.now
        for request in self.machine.poll(now):
            self._schedule.send(self, request)
        at = self.machine.next_time(now)
        at = min(at if at is not None else now + 1, now + 1)
        if self._wake_at is None or at < self._wake_at or self._wake_at <= now:
            self._wake_at = at
            self._events.after(max(0.0005, at - now), self._wake)

    def _has_ended(self) -> bool:
        return self.over

    def _wake(self) -> None:
        if self._wake_at is not None and self._events.now >= self._wake_at:
            self._wake_at = None
        self.step()

    def _act(self) -> None:
        machine, now = self.machine, self._events.now
        try:
            if machine.phase is Phase.OVER or (now - self._since > _PATIENCE_S and not self._schedule.calm):
                self.die()
            elif self._stage == "init":
                self._take_over()
            elif self._stage in ("writing", "committing") and machine.error is not None:
                self._require_reason(machine.error)
                self._abort()
            elif self._stage == "writing":
                self._write_on()
            elif self._stage == "committing" and machine.phase is Phase.COMMITTING and self._chance.random() < 0.01:
                self._abort()  # the owner gives up
            elif self._stage == "committing" and machine.phase is Phase.READY:
                self.position = self._end
                self._schedule.committed(self.position, with_group=self._with_group)
                self._pause_or_begin()
            elif self._stage == "aborting" and machine.phase is Phase.READY:
                self._pause_or_begin()
            elif self._stage == "pausing" and self._chance.random() < 0.5:
                self._begin()
        except FencingError:
            self.die()

    def _take_over(self) -> None:
        if self.machine.phase is Phase.READY:
            seen = self._schedule.cluster.partitions[OFFSETS].visible()
            self.position = max(seen, default=0)
            self._begin()

    def _require_reason(self, error: FencingError) -> None:
        """These leaders lose nothing, so no number may be missing."""
        if error.code == "OUT_OF_ORDER_SEQUENCE_NUMBER":
            raise Violation(f"a transaction is aborted for no reason: {error}")

    def _pause_or_begin(self) -> None:
        self._since = self._events.now
        if self._chance.random() < 0.2:
            self._stage = "pausing"
        else:
            self._begin()

    def _begin(self) -> None:
        self._since = self._events.now
        self.machine.begin(self._events.now)
        self._stage = "writing"
        self._end = self.position
        self._left = self._chance.choice([1, 1, 2, 4, 8])
        self._with_group = self._schedule.groups and self._chance.random() < 0.3
        self._write_on()

    def _write_on(self) -> None:
        """Write some more, then the offset, then commit; or abort."""
        while self._left:
            self._left -= 1
            more = self._chance.choice([1, 1, 2, 5])
            numbers = list(range(self._end, self._end + more))
            for place in PLACES:
                self.machine.add(place, batch_of(numbers), self._events.now)
            self._end += more
            if self._chance.random() < 0.3:
                return
        if self._chance.random() < 0.15:
            self._abort()
            return
        self.machine.add(OFFSETS, batch_of([self._end]), self._events.now)
        if self._with_group:
            self.machine.send_offsets(GroupMember("g"), {("in", 0): self._end})
        self.machine.commit()
        self._stage = "committing"

    def _abort(self) -> None:
        self.machine.abort()
        self._stage = "aborting"

    def die(self) -> None:
        if not self.over:
            self.over = True
            self._schedule.writer_over()


class Schedule:
    """One random schedule. `run` raises `Violation` if a guarantee does not hold."""

    def __init__(self, seed: int, new_machine: NewMachine, *, implicit: bool) -> None:
        random.seed(seed)  # the pauses between failures are random, too
        self.chance = chance = random.Random(seed)
        self.events = Events()
        self.groups = chance.random() < 0.3
        self.cluster = Cluster(
            self.events,
            chance,
            PLACES,
            implicit=implicit,
            epochs=chance.choice([4, 10, 1000]),
            timeout_s=chance.choice([3.0, 60.0]),
        )
        rate = chance.choice([0.0, 0.02, 0.1, 0.25])
        self.troubles = Troubles(rate / 2, rate / 2, rate / 2, rate if implicit else 0.0, rate / 4)
        self._moves_every = chance.choice([None, 5.0, 0.5])
        self._kills_every = chance.choice([None, 10.0, 1.0])
        self._new_machine = new_machine
        self._writers: list[Writer] = []
        self._newest_committed = self._newest_of_group = 0
        self.calm = self._closing = False
        self.transactions = 0

    def committed(self, position: int, *, with_group: bool) -> None:
        self.transactions += 1
        self._newest_committed = max(self._newest_committed, position)
        if with_group:
            self._newest_of_group = max(self._newest_of_group, position)

    def writer_over(self) -> None:
        self.events.after(self.chance.uniform(0, 0.1), self._start_writer)

    def _start_writer(self) -> None:
        if not self._closing and all(each.over or each.frozen for each in self._writers):
            self._writers.append(Writer(self, self._new_machine()))

    def _kill(self) -> None:
        if self.calm:
            return
        writer = self._writers[-1]
        if not writer.over:
            if self.chance.random() < 0.5:
                writer.die()
            else:
                writer.frozen = True
                self.writer_over()
                self.events.after(self.chance.uniform(0.05, 3.0), lambda: self._thaw(writer))
        assert self._kills_every is not None
        self.events.after(self.chance.uniform(0, 2 * self._kills_every), self._kill)

    def _thaw(self, writer: Writer) -> None:
        """A zombie goes on where it was."""
        writer.frozen = False
        writer._wake_at = None
        writer.step()

    def _move(self) -> None:
        if self.calm:
            return
        self.cluster.move_something()
        assert self._moves_every is not None
        self.events.after(self.chance.uniform(0, 2 * self._moves_every), self._move)

    # The network.

    def send(self, writer: Writer, sent: Outgoing) -> None:
        chance, after = self.chance, self.events.after
        way = chance.uniform(0.0001, 0.003)
        if self.calm:
            after(way, lambda: self._deliver(writer, sent, answered=True))
            return
        luck, troubles = chance.random(), self.troubles
        if luck < troubles.unsent:
            after(way, lambda: self._tell(writer, lambda now: writer.machine.note_unsent(sent.number, now)))
            return
        luck -= troubles.unsent
        if luck < troubles.lost + troubles.late:
            self._time_out(writer, sent)
            if luck < troubles.late:
                after(chance.choice([0.5, 1.0, 1.001, 1.5, 3.0, 6.0]) * chance.random() * 2, lambda: self._copy(sent))
            if luck < troubles.late / 4:
                after(chance.uniform(0, 3.0), lambda: self._copy(sent))
            return
        luck -= troubles.lost + troubles.late
        if luck < troubles.answer_lost:
            self._time_out(writer, sent)
            after(way, lambda: self._copy(sent))
            return
        luck -= troubles.answer_lost
        after(way, lambda: self._deliver(writer, sent, answered=True))
        if luck < troubles.doubled:
            after(chance.choice([0.002, 0.02, 0.2, 3.0]) * chance.random(), lambda: self._copy(sent))

    def _time_out(self, writer: Writer, sent: Outgoing) -> None:
        seconds = self.chance.choice([0.001, 0.05, _REQUEST_S])
        self.events.after(
            seconds, lambda: self._tell(writer, lambda now: writer.machine.note_unanswered(sent.number, now))
        )

    def _copy(self, sent: Outgoing) -> None:
        self.cluster.handle(sent.node, sent.request, lambda _: None)

    def _deliver(self, writer: Writer, sent: Outgoing, *, answered: bool) -> None:
        def answer(response: Response) -> None:
            self.events.after(
                self.chance.uniform(0.0001, 0.003),
                lambda: self._tell(writer, lambda now: writer.machine.take_answer(sent.number, response, now)),
            )

        self.cluster.handle(sent.node, sent.request, answer)

    def _tell(self, writer: Writer, what: Callable[[float], None]) -> None:
        if writer.over:
            return
        if writer.frozen:
            self.events.after(0.1, lambda: self._tell(writer, what))
            return
        what(self.events.now)
        writer.step()

    # The run.

    def run(self, seconds: float = 8.0, transactions: int = 10) -> None:
        self._start_writer()
        if self._moves_every:
            self.events.after(self._moves_every, self._move)
        if self._kills_every:
            self.events.after(self._kills_every, self._kill)
        self.events.run(seconds, lambda: self.transactions >= transactions)
        self._finish()
        self._check()

    def _finish(self) -> None:
        """No more troubles: within a minute the writer must have committed, and late requests must have arrived."""
        self.calm = True
        before = self.transactions
        self.events.run(self.events.now + 60, lambda: self.transactions > before + 2)
        if self.transactions <= before + 2:
            raise Violation("no writer can commit any more")
        self._closing = True
        for each in self._writers:
            each.die()
        self.events.run(self.events.now + 20)
        last = Writer(self, self._new_machine())
        last._begin = lambda: setattr(last, "_stage", "done")  # type: ignore[method-assign]
        self.events.run(self.events.now + 100, lambda: last._stage == "done")
        if last._stage != "done":
            raise Violation("no writer can take the id any more")
        last.over = True
        self.events.run(self.events.now + 10)

    def _check(self) -> None:
        if places := self.cluster.open_places():
            raise Violation(f"a transaction is open for ever in {places}")
        (*offsets,) = self.cluster.partitions[OFFSETS].visible()
        if offsets != sorted(set(offsets)):
            raise Violation(f"offsets out of order: {offsets}")
        end = max(offsets, default=0)
        if end < self._newest_committed:
            raise Violation(f"a committed transaction is lost: {end} of {self._newest_committed}")
        for place in PLACES:
            numbers = self.cluster.partitions[place].visible()
            if numbers != list(range(end)):
                raise Violation(f"{place}: {_describe(numbers, end)}")
        if not self._newest_of_group <= self.cluster.group_offset <= end:
            group = f"{self.cluster.group_offset}, of {self._newest_of_group} to {end}"
            raise Violation(f"a group's offset is lost, or of an aborted transaction: {group}")


def _describe(numbers: list[int], end: int) -> str:
    twice = sorted({each for each in numbers if numbers.count(each) > 1})
    missing = sorted(set(range(end)) - set(numbers))
    more = sorted(set(numbers) - set(range(end)))
    return f"{len(numbers)} of {end} records; twice {twice[:9]}, missing {missing[:9]}, too many {more[:9]}"


def new_machine() -> StateMachine:
    """A producer with short times."""
    return StateMachine("id", 60_000, Limits(delivery_s=8.0))


def run(seed: int, implicit: bool, machine: NewMachine = new_machine) -> Schedule:
    schedule = Schedule(seed, machine, implicit=implicit)
    schedule.run()
    return schedule
