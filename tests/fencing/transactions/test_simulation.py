"""The state machine keeps its promises in random schedules, and does not without any one of its rules."""

import os
import time

import pytest

from ringfence.fencing.transactions.messages import (
    AddOffsets,
    AddPartitions,
    BatchResponse,
    EndTransaction,
    IdentityResponse,
    Produce,
)
from ringfence.fencing.transactions.partition_queue import PartitionQueue, PartitionQueues, QueuedBatch
from ringfence.fencing.transactions.state_machine import StateMachine
from ringfence.fencing.transactions.steps import Limits, Outgoing
from tests.fencing.transactions.simulation import Violation, run

SECONDS = float(os.environ.get("RINGFENCE_SIMULATION_SECONDS", "3"))
"""For each version of the protocol; give it more before a change of the rules is trusted."""
FIRST_SEED = int(os.environ.get("RINGFENCE_SIMULATION_SEED", "0"))
MOST_SEEDS = 1500
LIMITS = Limits(delivery_s=8.0)


@pytest.mark.parametrize("implicit", [pytest.param(True, id="v2"), pytest.param(False, id="v1")])
def test_random_schedules(implicit: bool) -> None:
    seed, transactions = FIRST_SEED, 0
    end = time.process_time() + SECONDS
    while time.process_time() < end:
        try:
            transactions += run(seed, implicit).transactions
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}")
        seed += 1
    print(f"{seed - FIRST_SEED} schedules, {transactions} transactions")
    assert transactions > 10 * (seed - FIRST_SEED) / 2, "most schedules have to get somewhere"


class FirstNotAlone(PartitionQueue):
    @property
    def most_in_flight(self) -> int:
        return 5


class TenInFlight(PartitionQueue):
    @property
    def most_in_flight(self) -> int:
        return 10 if self._opened else 1


class ForgetsWhoIsAhead(PartitionQueue):
    def note_written(self, batch: QueuedBatch) -> None:
        super().note_written(batch)
        self._ahead.clear()


class PutsBackLast(PartitionQueue):
    def put_back(self, batch: QueuedBatch, not_before: float) -> None:
        super().put_back(batch, not_before)
        self.waiting.remove(batch)
        self.waiting.append(batch)


class AllLead(PartitionQueue):
    def send(self, producer_id: int, epoch: int) -> QueuedBatch:
        batch = super().send(producer_id, epoch)
        batch.leads = True
        return batch


class NewNumbers(PartitionQueue):
    def put_back(self, batch: QueuedBatch, not_before: float) -> None:
        super().put_back(batch, not_before)
        batch.sequence = -1


class NumbersOfTheLastEpoch(PartitionQueue):
    def restart(self) -> None:
        next_sequence = self._next_sequence
        super().restart()
        self._next_sequence = next_sequence


def with_queue(kind: type[PartitionQueue]) -> type[StateMachine]:
    class Machine(StateMachine):
        def __init__(self, transactional_id: str, timeout_ms: int, limits: Limits | None = None) -> None:
            super().__init__(transactional_id, timeout_ms, limits)
            self.queues = PartitionQueues(LIMITS.delivery_s, kind)

    return Machine


class KeepsEpochAfterDoubt(StateMachine):
    def _take_end(self, end: EndTransaction, response: IdentityResponse, now: float) -> None:
        self._doubtful = False
        super()._take_end(end, response, now)


class KeepsEpochAfterAbort(StateMachine):
    def _require_epoch(self) -> None:
        pass


class AbortsBesideBatches(StateMachine):
    def _abort(self, out: list[Outgoing], now: float) -> None:
        self.queues.drop()
        self._end(out, now, committed=False)


class BelievesProduce(StateMachine):
    def note_unanswered(self, number: int, now: float) -> None:
        sent = self._pending.get(number)
        if sent is not None and isinstance(sent.request, Produce):
            self._pending.pop(number)
            self._release(sent)
            for place, batch in self._carried.pop(number).items():
                if batch in self.queues[place].in_flight:
                    self.queues.note_written(place, batch)
            return
        super().note_unanswered(number, now)


class BelievesEnd(StateMachine):
    def note_unanswered(self, number: int, now: float) -> None:
        sent = self._pending.get(number)
        if sent is not None and isinstance(sent.request, EndTransaction):
            end = sent.request
            identity = (end.producer_id, end.epoch + 1) if end.implicit else (-1, -1)
            self.take_answer(number, IdentityResponse(0, 0, *identity), now)
            return
        super().note_unanswered(number, now)


class CommitsEarly(StateMachine):
    def _all_written(self) -> bool:
        return all(not queue.waiting for queue in self.queues.busy.values()) and self.group.done


class CommitsBesideTheGroup(StateMachine):
    def _all_written(self) -> bool:
        return not self.queues.busy


class AbortsBesideAdditions(StateMachine):
    def _abort(self, out: list[Outgoing], now: float) -> None:
        self.steps[AddPartitions].under_way = self.steps[AddOffsets].under_way = False
        super()._abort(out, now)


class IgnoresMissingMarkers(StateMachine):
    def _take_refusal(self, queue: PartitionQueue, batch: QueuedBatch, answer: BatchResponse, now: float) -> None:
        if answer.error == 51:
            self.queues.note_written(queue.place, batch)
            return
        super()._take_refusal(queue, batch, answer, now)


class KeepsItsCoordinator(StateMachine):
    def poll(self, now: float) -> list[Outgoing]:
        self._kept = self._coordinator = self._coordinator or getattr(self, "_kept", None)
        return super().poll(now)


class IgnoresGaps(StateMachine):
    def _take_refusal(self, queue: PartitionQueue, batch: QueuedBatch, answer: BatchResponse, now: float) -> None:
        if answer.error == 45:
            self.queues.note_written(queue.place, batch)
            return
        super()._take_refusal(queue, batch, answer, now)


class AddsNothing(StateMachine):
    def _is_added(self, place: tuple[str, int]) -> bool:
        return True

    def _add_partitions(self, out: list[Outgoing], now: float) -> None:
        pass


class AbortsACommit(StateMachine):
    def abort(self) -> None:
        self._commit_requested = False
        super().abort()


class LooksUpNothingAgain(StateMachine):
    def note_unsent(self, number: int, now: float) -> None:
        super().note_unsent(number, now)
        self.view._due -= self.view.topics.keys()

    def _take_refusal(self, queue: PartitionQueue, batch: QueuedBatch, answer: BatchResponse, now: float) -> None:
        super()._take_refusal(queue, batch, answer, now)
        self.view._due -= self.view.topics.keys()


class ForgetsToRepeat(StateMachine):
    def note_unanswered(self, number: int, now: float) -> None:
        sent = self._pending.get(number)
        if sent is not None and isinstance(sent.request, AddPartitions | EndTransaction):
            self._pending.pop(number)
            return
        super().note_unanswered(number, now)


RULES: dict[str, tuple[type[StateMachine], tuple[bool, ...]]] = {
    "the first batch of an epoch is alone": (with_queue(FirstNotAlone), (True, False)),
    "at most five are in flight": (with_queue(TenInFlight), (True, False)),
    "written batches behind a doubtful one count": (with_queue(ForgetsWhoIsAhead), (True, False)),
    "a repeated batch keeps its place": (with_queue(PutsBackLast), (True, False)),
    "a gap behind a batch under way is none": (with_queue(AllLead), (True, False)),
    "a repeated batch keeps its number": (with_queue(NewNumbers), (True, False)),
    "an epoch's numbers start at 0": (with_queue(NumbersOfTheLastEpoch), (True, False)),
    "a new epoch after a doubt": (KeepsEpochAfterDoubt, (False,)),
    "a new epoch after an abort": (KeepsEpochAfterAbort, (False,)),
    "no abort beside batches that may arrive": (AbortsBesideBatches, (False,)),
    "no answer to a batch is no success": (BelievesProduce, (True, False)),
    "no answer to the end is no success": (BelievesEnd, (True, False)),
    "the end waits for all answers": (CommitsEarly, (True, False)),
    "the end waits for the group": (CommitsBesideTheGroup, (True, False)),
    "an abort waits for additions": (AbortsBesideAdditions, (False,)),
    "a transaction begins when the last one's markers are written": (IgnoresMissingMarkers, (True,)),
    "coordinators are looked up again": (KeepsItsCoordinator, (True, False)),
    "a gap is a loss": (IgnoresGaps, (True, False)),
    "partitions are added before they are written to": (AddsNothing, (False,)),
    "what may be committed is not aborted": (AbortsACommit, (True, False)),
    "leaders are looked up again": (LooksUpNothingAgain, (True, False)),
    "what has no answer is repeated": (ForgetsToRepeat, (True, False)),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "rule, implicit",
    [
        pytest.param(rule, implicit, id=f"{rule}-{'v2' if implicit else 'v1'}")
        for rule, (_, versions) in RULES.items()
        for implicit in versions
    ],
)
def test_each_rule_is_needed(rule: str, implicit: bool) -> None:
    kind: type[StateMachine] = RULES[rule][0]
    for seed in range(MOST_SEEDS):
        try:
            run(seed, implicit, lambda: kind("id", 60_000, LIMITS))
        except (Violation, AssertionError) as noticed:
            print(f"seed {seed}: {type(noticed).__name__} {noticed}")
            return
    pytest.fail("the simulation does not notice that the rule is missing")
