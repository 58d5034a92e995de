"""Transactions that the plugin defines, on the real broker: committed and aborted as it asked, and nothing else."""

from collections.abc import Sequence

import pytest

from ringfence.connectors.api import SourceRecord
from ringfence.fencing.clock import Deadline
from ringfence.fencing.offsets.source_offsets import encode_key, encode_value
from ringfence.fencing.task.clients import transactional_producer
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import State
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.stage import PARTITION, Counting, Listening, Plain, Script, Stage
from tests.support.waiting import eventually


def ready(stage: Stage, boundary: str = "connector") -> dict[str, str]:
    made = {"topic": stage.data, "transaction.boundary": boundary}
    stage.configure(made)
    stage.count()
    return made


FIRST, LAST = 1, 21


def fibonacci() -> list[range]:
    """Transactions of 1, 2, 3, 5, 8, 13 and 21 records, and the same sizes again."""
    sizes, pair = [], (FIRST, 2)
    while pair[0] <= LAST:
        sizes.append(pair[0])
        pair = (pair[1], sum(pair))
    found: list[range] = []
    for size in sizes * 2:
        start = found[-1].stop if found else 0
        found.append(range(start, start + size))
    return found


TRANSACTIONS = fibonacci()
KEPT = [list(numbers) for index, numbers in enumerate(TRANSACTIONS) if index % 3 != 1]
END = TRANSACTIONS[-1].stop


class Fibonacci(Listening):
    """Every third transaction is aborted. Names the last record of each."""

    def record(self, number: int) -> SourceRecord:
        made = super().record(number)
        asked = self.context.transaction_context
        assert asked is not None
        for index, numbers in enumerate(TRANSACTIONS):
            if number == numbers[-1]:
                (asked.abort_transaction if index % 3 == 1 else asked.commit_transaction)(made)
        return made


class FibonacciInBatches(Listening):
    """The same with requests for whole batches, of at most eight records."""

    def poll(self) -> Sequence[SourceRecord] | None:
        asked = self.context.transaction_context
        assert asked is not None
        for index, numbers in enumerate(TRANSACTIONS):
            if self.next in numbers:
                start, self.next = self.next, min(numbers.stop, self.next + 8)
                if self.next == numbers.stop:
                    (asked.abort_transaction if index % 3 == 1 else asked.commit_transaction)()
                return [self.record(number) for number in range(start, self.next)]
        self.context.wait(0.2)
        return None


@pytest.mark.parametrize("kind", [Fibonacci, FibonacciInBatches])
def test_sizes_of_committed_and_aborted_transactions_are_as_asked(stage: Stage, kind: type[Counting]) -> None:
    script = Script(limit=END, batch=7)
    attempt = stage.start(script, ready(stage), kind=kind)
    eventually(lambda: stage.offset() == END, 60, "the last source offset, of a committed transaction", pause=0.2)
    assert stage.transactions() == KEPT
    assert attempt.run._counters.aborted == len(TRANSACTIONS) - len(KEPT)
    stage.stop()
    assert stage.transactions() == KEPT
    assert len(script.instances) == 1, "an abort that the plugin asked for needs no new instance"
    assert script.committed == list(range(END)), "each record's source offset is committed, an aborted one's too"


def test_offsets_of_aborted_records_are_committed_although_nothing_follows(stage: Stage) -> None:
    class Aborting(Listening):
        def record(self, number: int) -> SourceRecord:
            made = super().record(number)
            if number == 19 and (asked := self.context.transaction_context):
                asked.abort_transaction(made)
            return made

    made = ready(stage)
    script = Script(limit=20, batch=5)
    stage.start(script, made, kind=Aborting)
    eventually(lambda: script.commits == 1, 60, "the commit of the offsets")
    assert (stage.visible(), stage.offset()) == ([], 20)
    second = Script(limit=30)
    stage.start(second, made, attempt=2, kind=Aborting)
    eventually(lambda: bool(second.instances) and second.instances[-1].next == 30, 60, "the next attempt has polled")
    assert second.instances[-1].polls >= 1
    stage.stop()
    assert (stage.visible(), stage.offset()) == ([], 20)


def test_nothing_is_committed_unless_asked_and_a_pause_or_stop_leaves_it_to_the_next_instance(stage: Stage) -> None:
    def ask(task: Counting) -> None:
        if task.next == 500 and (asked := task.context.transaction_context):
            asked.commit_transaction()

    made = ready(stage)
    script = Script(limit=900, before_poll=ask)
    stage.start(script, made)
    eventually(lambda: bool(script.instances) and script.instances[0].next == 900, 60, "all is polled")
    eventually(lambda: stage.offset() == 550, 60, "the one commit that was asked for", pause=0.1)
    stage.write(TargetStateRecord(stage.connector, TargetState.PAUSED))
    eventually(lambda: (found := stage.status()) is not None and found.state is State.PAUSED, 30, "PAUSED")
    assert stage.exact(550) == 550
    assert script.instances[0].stopped, "what it read cannot be rewound"
    stage.write(TargetStateRecord(stage.connector, TargetState.RUNNING))
    eventually(lambda: len(script.instances) == 2 and script.instances[1].next == 900, 60, "the rest is read again")
    stage.stop()
    assert stage.exact(550) == 550


def test_a_pause_between_two_transactions_keeps_the_instance(stage: Stage) -> None:
    def ask(task: Counting) -> None:
        if task.context.transaction_context:
            task.context.transaction_context.commit_transaction()

    script = Script(limit=100, before_poll=ask)
    stage.start(script, ready(stage))
    stage.wait_for(100)
    stage.write(TargetStateRecord(stage.connector, TargetState.PAUSED))
    eventually(lambda: (found := stage.status()) is not None and found.state is State.PAUSED, 30, "PAUSED")
    script.limit = 200
    stage.write(TargetStateRecord(stage.connector, TargetState.RUNNING))
    stage.wait_for(200)
    stage.stop()
    assert stage.exact(200) == 200
    assert len(script.instances) == 1


def test_a_named_record_that_a_transform_drops_still_ends_its_transaction(stage: Stage) -> None:
    class Tens(Listening):
        def record(self, number: int) -> SourceRecord:
            made = super().record(number)
            if number % 10 == 9 and (asked := self.context.transaction_context):
                (asked.abort_transaction if number == 19 else asked.commit_transaction)(made)
            return made

    class NoNines(Plain):
        transforms = True

        def record(self, record: SourceRecord) -> SourceRecord | None:
            assert isinstance(record.value, bytes)
            return None if record.value.endswith(b"9") else record

    script = Script(limit=50, batch=15)
    stage.start(script, ready(stage), kind=Tens, convert=NoNines(raw=False))
    eventually(lambda: stage.offset() == 50, 60, "all source offsets", pause=0.2)
    assert stage.transactions() == [list(range(start, start + 9)) for start in (0, 20, 30, 40)]


@pytest.mark.parametrize("named", [True, False])
def test_contradictory_requests_fail_the_task_although_it_swallows_errors(stage: Stage, named: bool) -> None:
    class Torn(Counting):
        def record(self, number: int) -> SourceRecord:
            made = super().record(number)
            asked = self.context.transaction_context
            assert asked is not None
            if number == 50:
                asked.commit_transaction(made if named else None)
                asked.abort_transaction(made if named else None)
            return made

    attempt = stage.start(Script(limit=200, batch=40), ready(stage), kind=Torn)
    assert "both commit and abort" in (attempt.ended().trace or "")
    assert (stage.visible(), stage.offset()) == ([], 0)


def test_the_context_is_there_for_this_boundary_only(stage: Stage) -> None:
    script = Script(limit=10)
    stage.start(script, ready(stage, "poll"))
    stage.wait_for(10)
    assert script.instances[0].context.transaction_context is None


def test_an_abort_notices_that_somebody_else_has_committed_meanwhile(stage: Stage) -> None:
    """Another holder of the transactional id delivered 0..9 beside the abort: they must not be covered once more."""

    class Intruded(Producer):
        def abort(self, deadline: Deadline) -> bool:
            confirmed = super().abort(deadline)
            if not intruders:
                other = transactional_producer(specs[0], 60_000)
                intruders.append(other)
                other.init(Deadline.after(30))
                other.begin()
                for number in range(10):
                    other.produce(stage.data, str(number).encode())
                key = encode_key(stage.connector, PARTITION)
                other.produce(stage.topics.offsets, encode_value({"next": 10}), key)
                other.commit(Deadline.after(30))
            return confirmed

    def new_producer(spec: TaskSpec, timeout_ms: int) -> Intruded:
        specs.append(spec)
        return Intruded(spec.connection, spec.transactional_id, transaction_timeout_ms=timeout_ms)

    def ask(task: Counting) -> None:
        if asked := task.context.transaction_context:
            if task.next == 0:
                asked.abort_transaction()
            else:
                asked.commit_transaction()

    intruders: list[Producer] = []
    specs: list[TaskSpec] = []
    script = Script(limit=100, batch=5, before_poll=ask)
    stage.start(script, ready(stage), new_producer=new_producer)
    stage.wait_for(100)
    stage.stop()
    intruders[0].close()
    assert stage.exact(100) == 100
    assert len(script.instances) == 2
