"""What a group's answers mean for the transaction that commits its offsets."""

import pytest

from ringfence.fencing.errors import Fenced
from ringfence.fencing.transactions.error_codes import ErrorCode
from ringfence.fencing.transactions.messages import (
    CodesResponse,
    CommitOffsets,
    EndTransaction,
    GroupMember,
)
from ringfence.fencing.transactions.state_machine import StateMachine
from ringfence.fencing.transactions.steps import Outgoing, Phase
from tests.fencing.transactions.simulated_cluster import batch_of
from tests.fencing.transactions.willing_broker import WillingBroker

PLACE = ("t", 0)


class Conversation:
    """A producer, and brokers that answer everything but commits of offsets, which are in `held`."""

    def __init__(self, *, v2: bool) -> None:
        self.machine = StateMachine("id", 60_000)
        self.held: list[Outgoing] = []
        self.ends: list[bool] = []
        self._broker = WillingBroker("1")
        self._now = 0.0
        self.machine.use_version(v2)
        self.machine.initialise()
        self.run()

    def run(self) -> None:
        self._now += 1.0
        while requests := self.machine.poll(self._now):
            for each in requests:
                if isinstance(each.request, CommitOffsets):
                    self.held.append(each)
                    continue
                if isinstance(each.request, EndTransaction):
                    self.ends.append(each.request.committed)
                self.machine.take_answer(each.number, self._broker.answer(each.request), self._now)

    def begin(self, offset: int) -> None:
        """Begin a transaction with a record and an offset, of which the group is told."""
        self.machine.begin(self._now)
        self.machine.add(PLACE, batch_of([1]), self._now)
        self.machine.send_offsets(GroupMember("g", 3, "m"), {("in", 0): offset})
        self.run()

    def answer_held(self, code: int) -> CommitOffsets:
        """Answer the oldest commit of offsets, and return it."""
        outgoing = self.held.pop(0)
        request = outgoing.request
        assert isinstance(request, CommitOffsets)
        self.machine.take_answer(outgoing.number, CodesResponse(0, dict.fromkeys(request.offsets, code)), self._now)
        return request


@pytest.mark.parametrize("v2", [True, False])
def test_the_answer_about_an_aborted_transactions_offsets_counts_for_no_other(v2: bool) -> None:
    talk = Conversation(v2=v2)
    talk.begin(5)
    talk.machine.abort()
    talk.run()
    assert talk.machine.phase is Phase.READY
    talk.begin(6)
    assert talk.answer_held(0).offsets == {("in", 0): 5}
    assert not talk.machine.group.done
    talk.machine.commit()
    talk.run()
    assert talk.ends == [False], "the end waits for the group"
    assert talk.answer_held(0).offsets == {("in", 0): 6}
    talk.run()
    assert talk.ends == [False, True]
    assert talk.machine.phase is Phase.READY


@pytest.mark.parametrize("v2", [True, False])
def test_a_member_of_an_older_generation_aborts_what_it_has_written(v2: bool) -> None:
    talk = Conversation(v2=v2)
    talk.begin(5)
    talk.answer_held(ErrorCode.ILLEGAL_GENERATION)
    assert isinstance(talk.machine.error, Fenced)
    assert talk.machine.phase is Phase.OPEN
    talk.machine.abort()
    talk.run()
    assert talk.ends == [False]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_a_producer_that_is_fenced_is_over(code: int) -> None:
    talk = Conversation(v2=True)
    talk.begin(5)
    talk.answer_held(code)
    assert isinstance(talk.machine.error, Fenced)
    assert talk.machine.phase is Phase.OVER
