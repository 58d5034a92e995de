"""Tasks on a share group as the worst of worlds: any task may be given any record at any time, die, freeze, be doubled.

The ledger and the claims are the real ones; log, transaction coordinator and share group are played here. A rule can be
left out (`Rules`), and must be missed: `walk` says "twice" where two committed transactions have a record in common,
"lost" where one is in none after everything has calmed down.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.ledger_keys import InputPartition
from ringfence.fencing.offsets.source_offsets import encode_key, encode_value
from ringfence.fencing.share.ledger import Ledger, ProcessedOffsets, claim_key, encode_claim
from ringfence.fencing.share.offset_ranges import Ranges

QUEUE = ConnectorName("queue")
TP = InputPartition("topic", 0)


@dataclass(frozen=True)
class Rules:
    """Each is kept; one is left out by a False."""

    check: bool = True
    """Behind the claim, the ledger is looked at again."""
    tail: bool = True
    """It is read up to the claim for that."""
    undecided: bool = True
    """Claims that are not decided count, too."""
    marker: bool = True
    """A fence decides nothing: its marker does."""
    same_transaction: bool = True
    """Claim and states are in the output's transaction."""
    one_log: bool = True
    """All claims are in one partition."""
    read_again: bool = True
    """After a doubt, the ledger is read to its end before anything else is claimed."""
    sweep: bool = True
    """What the group does not deliver any more is read from its topic."""
    whole: bool = True
    """What is claimed is in the output, or the transaction is aborted."""
    counts: bool = True
    """No delivery count is believed: a first delivery is checked like any other."""


@dataclass
class Entry:
    """A record, or a marker where `committed` is set. log: the partition."""

    producer: int
    log: int
    key: bytes = b""
    value: bytes | None = None
    committed: bool | None = None


@dataclass
class Coordinated:
    """What the transaction coordinator knows of one transactional id."""

    epoch: int = 0
    open: frozenset[int] | None = None
    decided: bool = False


@dataclass
class Attempt:
    """One process of a slot; an older one may live on."""

    slot: int
    epoch: int
    ledger: Ledger
    processed: ProcessedOffsets
    position: int = 0
    phase: str = "idle"
    batch: frozenset[int] = frozenset()
    claim_at: int = 0
    believed: set[int] = field(default_factory=set)
    """Slots whose fence this one takes for an abort."""


class World:
    """One run."""

    def __init__(self, rules: Rules, rng: Random, records: int = 3, slots: int = 2) -> None:
        self.rules = rules
        self.rng = rng
        self.records = range(records)
        self.log: list[Entry] = []
        self.coordinated = [Coordinated() for _ in range(slots)]
        self.attempts: list[Attempt] = []
        self.outputs: Counter[int] = Counter()
        self.archived: set[int] = set()
        self.delivered: set[int] = set()
        """As the share group counts, which forgets."""
        for slot in range(slots):
            self.begin(slot)

    # What is played.

    def end_transaction(self, slot: int, *, fence: bool) -> None:
        """What `init` and a fence do: what is open is aborted, what is decided completed, the epoch raised."""
        there = self.coordinated[slot]
        if there.open is not None:
            self.mark(slot, there.decided)
        there.epoch += fence

    def mark(self, slot: int, committed: bool) -> None:
        there = self.coordinated[slot]
        self.log += [Entry(slot, log, committed=committed) for log in ({0} if self.rules.one_log else {0, 1})]
        there.open, there.decided = None, False

    def begin(self, slot: int, old: Attempt | None = None) -> None:
        """A new life: init, then the ledger to its end. `old`: the life before in the same process."""
        self.end_transaction(slot, fence=True)
        ledger = Ledger(QUEUE)
        made = Attempt(slot, self.coordinated[slot].epoch, ledger, ProcessedOffsets(ledger, slot))
        if self.rules.read_again or old is None:
            self.read_compacted(made)
            self.read(made, len(self.log))
        else:
            made.ledger, made.processed, made.position = old.ledger, old.processed, old.position
            made.processed.forget()
        if not made.processed.is_known(TP):
            made.processed._own[TP] = made.processed.find_committed(TP)  # the partition begins at 0 for all
        self.attempts.append(made)

    def read_compacted(self, attempt: Attempt) -> None:
        """What the cleaner leaves of everything before the first open transaction: the newest committed of each key."""
        mine = 0 if self.rules.one_log else attempt.slot % 2
        open_: dict[int, list[tuple[int, Entry]]] = {}
        newest: dict[bytes, bytes | None] = {}
        for offset, entry in enumerate(self.log):
            if entry.log != mine:
                continue
            if entry.committed is None:
                open_.setdefault(entry.producer, []).append((offset, entry))
                continue
            for _, record in open_.pop(entry.producer, ()) if entry.committed else ():
                newest.pop(record.key, None)
                newest[record.key] = record.value
            open_.pop(entry.producer, None)
        if not open_:
            attempt.ledger.begin(newest.items())
            attempt.position = len(self.log)

    def read(self, attempt: Attempt, until: int) -> None:
        mine = 0 if self.rules.one_log else attempt.slot % 2
        for offset in range(attempt.position, until):
            entry = self.log[offset]
            if entry.log != mine:
                continue
            if entry.committed is None:
                attempt.ledger.take(entry.producer, offset, entry.key, entry.value)
            else:
                attempt.ledger.decide(entry.producer, entry.committed)
        attempt.position = max(attempt.position, until)

    def put(self, attempt: Attempt, key: bytes, value: bytes | None) -> None:
        self.log.append(Entry(attempt.slot, 0 if self.rules.one_log else attempt.slot % 2, key, value))

    # What a task does.

    def step(self, attempt: Attempt) -> None:
        there = self.coordinated[attempt.slot]
        if attempt.phase == "committed":
            self.settle(attempt)
        elif there.epoch != attempt.epoch:
            self.attempts.remove(attempt)  # it finds itself fenced
        elif attempt.phase == "idle":
            self.claim(attempt, there)
        elif attempt.phase == "claimed":
            self.look(attempt)
        elif attempt.phase == "ready":
            self.commit(attempt, there)

    def claim(self, attempt: Attempt, there: Coordinated) -> None:
        free = [one for one in self.records if not attempt.processed.is_done(TP, one)]
        if there.open is not None or not free:
            return
        attempt.batch = frozenset(self.rng.sample(free, self.rng.randint(1, len(free))))
        attempt.processed.claim(TP, sorted(attempt.batch))
        there.open = attempt.batch
        attempt.claim_at = len(self.log)
        if self.rules.same_transaction:
            self.put(attempt, claim_key(QUEUE, attempt.slot), encode_claim(attempt.processed.take_claim()))
        trusted = not self.rules.counts and not self.delivered & attempt.batch
        self.delivered |= attempt.batch
        attempt.phase = "ready" if trusted else "claimed"

    def look(self, attempt: Attempt) -> None:
        if self.rules.tail:
            self.read(attempt, min(len(self.log), max(attempt.position, attempt.claim_at + 1)))
        rivals = attempt.ledger.find_rivals(attempt.processed.claims, attempt.claim_at)
        undecided = rivals.open_slots if self.rules.undecided else frozenset()
        if not self.rules.check:
            attempt.phase = "ready"
        elif not self.rules.whole and (rivals.committed or undecided):
            attempt.batch = frozenset(one for one in attempt.batch if self.is_first(attempt, one))
            attempt.phase = "ready"
        elif rivals.committed:
            self.attempts.remove(attempt)
            self.begin(attempt.slot, attempt)
        elif not undecided - attempt.believed:
            attempt.phase = "ready"
        elif self.rng.random() < 0.4:
            for slot in sorted(undecided):
                self.end_transaction(slot, fence=True)
                if not self.rules.marker:
                    attempt.believed.add(slot)
        else:
            self.read(attempt, min(len(self.log), attempt.position + 1))

    def is_first(self, attempt: Attempt, offset: int) -> bool:
        rivals = attempt.ledger.find_rivals({TP: Ranges([(offset, offset)])}, attempt.claim_at)
        return not (rivals.committed or rivals.open_slots)

    def state(self, attempt: Attempt) -> None:
        for partition, offset in attempt.processed.states():
            self.put(attempt, encode_key(QUEUE, partition), encode_value(offset))

    def commit(self, attempt: Attempt, there: Coordinated) -> None:
        if self.rules.same_transaction:
            self.state(attempt)
        there.decided = True
        self.outputs.update(attempt.batch)
        attempt.phase = "committed"
        attempt.believed.clear()

    def settle(self, attempt: Attempt) -> None:
        if self.rng.random() < 0.2:  # the outcome is unknown to it
            self.attempts.remove(attempt)
            self.begin(attempt.slot, attempt)
            return
        if not self.rules.same_transaction:
            there = self.coordinated[attempt.slot]
            if there.epoch != attempt.epoch:
                self.attempts.remove(attempt)
                return
            self.end_transaction(attempt.slot, fence=False)
            self.state(attempt)
            self.mark(attempt.slot, committed=True)
        attempt.processed.settle()
        attempt.phase = "idle"

    # What happens to it.

    def trouble(self) -> None:  # noqa: C901 - a case for each thing that happens
        slot = self.rng.randrange(len(self.coordinated))
        match self.rng.choice(["marker", "marker", "read", "attempt", "kill", "timeout", "archive", "failover"]):
            case "marker":
                if self.coordinated[slot].decided:
                    self.mark(slot, committed=True)
            case "read":
                for one in self.attempts:
                    self.read(one, self.rng.randint(one.position, len(self.log)))
            case "attempt":
                if len(self.attempts) < 5:
                    self.begin(slot)
            case "kill":
                if self.attempts:
                    self.attempts.remove(self.rng.choice(self.attempts))
            case "timeout":
                if self.coordinated[slot].open is not None:
                    self.end_transaction(slot, fence=True)
            case "archive":
                self.archived.add(self.rng.choice(self.records))
            case "failover":
                self.delivered.clear()

    def calm(self) -> None:
        """The old processes are gone; fresh ones do what is left, of what they are given."""
        self.attempts.clear()
        if not self.rules.sweep:
            self.records = [one for one in self.records if one not in self.archived]  # type: ignore[assignment]
        for slot in range(len(self.coordinated)):
            self.begin(slot)
        for _ in range(60):
            for slot, there in enumerate(self.coordinated):
                if there.decided:
                    self.mark(slot, committed=True)
            for one in list(self.attempts):
                self.read(one, len(self.log))
                self.step(one)


def walk(rules: Rules, seed: int, steps: int = 80) -> str | None:
    """One random run: "twice", "lost", or None where all is well."""
    world = World(rules, Random(seed))
    everything = list(world.records)
    for _ in range(steps):
        if world.attempts and world.rng.random() < 0.75:
            world.step(world.rng.choice(world.attempts))
        else:
            world.trouble()
        if any(times > 1 for times in world.outputs.values()):
            return "twice"
    world.calm()
    if any(times > 1 for times in world.outputs.values()):
        return "twice"
    return None if all(world.outputs[one] for one in everything) else "lost"
