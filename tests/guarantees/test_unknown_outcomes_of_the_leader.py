"""Requests of the leader that get lost or come late: what was acknowledged stands there once (invariant 11)."""

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Conflict, Retriable
from ringfence.fencing.ids import ConnectorName, leader_transactional_id
from ringfence.fencing.kafka.membership import GroupMembership, GroupMetadata
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.leader import term as leadership
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import TargetStateRecord, decode
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.late import SHUT_OUT, end_txn_error
from tests.support.proxy import Api, Fate, Proxied, Request, Trap
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


def wish(number: int) -> TargetStateRecord:
    return TargetStateRecord(ConnectorName(f"c{number}"), TargetState.PAUSED)


USED = (Api.INIT_PRODUCER_ID, Api.PRODUCE, Api.TXN_OFFSET_COMMIT, Api.END_TXN)
"""With transactions v2, Produce and TxnOffsetCommit add partitions and groups. The older way, with requests of their
own, is played in `test_own_producer`.
"""


class LateLeader:
    """A term whose clients come through the proxy, and what it was told was written."""

    def __init__(self, proxied: Proxied, topic: str) -> None:
        self.proxied = proxied
        self.topic = topic
        self.group = f"{topic}-group"
        self.acknowledged: list[object] = []
        self.delivered: list[bytes] = []
        create_topics(proxied.direct, [TopicSpec(topic)], Deadline.after(20))
        captured: list[GroupMetadata] = []
        self.seat = GroupMembership(
            proxied.direct,
            self.group,
            topic,
            "w@1",
            captured.append,
            lambda: None,
            session_timeout_ms=15_000,
            max_poll_interval_ms=300_000,
        )

        def seated() -> bool:
            self.seat.poll(0.05)
            return bool(captured)

        eventually(seated, 30, "the member owns the topic")
        self.term = Term(proxied.through, self.group, topic, captured[-1], lambda: True)

    def write(self, number: int, *, seconds: float = 60) -> None:
        """One write that is acknowledged, or raises."""
        state, offset = self.term.write(lambda _: [wish(number)], Deadline.after(seconds))
        assert state.connector(ConnectorName(f"c{number}")).target is TargetState.PAUSED
        assert offset == state.end - 1
        self.acknowledged.append(wish(number))

    def trap(
        self,
        api: Api,
        fate: Fate = Fate.HOLD,
        times: int = 1,
        *,
        commits: bool | None = None,
    ) -> Trap:
        def wants(request: Request) -> bool:
            ours = request.api == api and request.names(leader_transactional_id(self.group))
            return ours and (commits is None or request.commits is commits)

        return self.proxied.proxy.set_trap(wants, fate, times)

    def written(self) -> list[object]:
        log = TopicLog(self.proxied.direct, self.topic)
        try:
            return [decode(record.key, record.value) for record in log.read_to_end(Deadline.after(30))]
        finally:
            log.close()

    def close(self) -> None:
        self.term.close()
        self.seat.close()


@pytest.fixture
def leader(proxied: Proxied, unique: Callable[[str], str]) -> Iterator[LateLeader]:
    made = LateLeader(proxied, unique("configs"))
    yield made
    made.close()


def deliver_amid_the_next(leader: LateLeader, trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request comes late: when the next write's records are in the broker, and its end is not asked for yet."""
    real, begin = Producer.send_offsets, Producer.begin
    records = 0

    def count_first(self: Producer) -> None:
        nonlocal records
        records = leader.proxied.proxy.count(Api.PRODUCE)
        begin(self)

    def send_offsets(
        self: Producer, offsets: Sequence[tuple[str, int, int]], metadata: bytes, deadline: Deadline
    ) -> None:
        assert self.flush(20) == 0
        # The transaction by which a claim begins has no records.
        if leader.proxied.proxy.count(Api.PRODUCE) > records and not leader.delivered:
            leader.delivered.append(leader.proxied.proxy.deliver(trap.wait()))
        real(self, offsets, metadata, deadline)

    monkeypatch.setattr(Producer, "begin", count_first)
    monkeypatch.setattr(Producer, "send_offsets", send_offsets)


def abort_one(leader: LateLeader, monkeypatch: pytest.MonkeyPatch) -> Trap:
    """A write that is aborted, whose abort is sent again; the first copy is held back."""
    trap = leader.trap(Api.END_TXN, commits=False)

    def refused(self: Producer, *_: object) -> None:
        assert self.flush(20) == 0
        raise Abortable("the group's coordinator says no")

    def decide(_: ClusterState) -> list[TargetStateRecord]:
        if trap.caught:
            raise Conflict("once is enough")
        return [wish(0)]

    with monkeypatch.context() as patch:
        patch.setattr(Producer, "send_offsets", refused)
        patch.setattr(Term, "claim", lambda self, deadline: self.state)
        with pytest.raises(Conflict, match="once is enough"):
            leader.term.write(decide, Deadline.after(60))
    return trap


def test_a_late_commit_ends_no_later_write(leader: LateLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    leader.term.claim(Deadline.after(30))
    trap = leader.trap(Api.END_TXN, commits=True)
    leader.write(1)
    deliver_amid_the_next(leader, trap, monkeypatch)
    leader.write(2)
    leader.write(3)
    assert end_txn_error(leader.delivered[0]) in SHUT_OUT
    assert leader.written() == leader.acknowledged


def test_a_late_abort_takes_no_later_write_back(leader: LateLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    leader.term.claim(Deadline.after(30))
    trap = abort_one(leader, monkeypatch)
    deliver_amid_the_next(leader, trap, monkeypatch)
    leader.write(1)
    leader.write(2)
    assert end_txn_error(leader.delivered[0]) in SHUT_OUT
    assert leader.written() == leader.acknowledged


@pytest.mark.parametrize("fate", [Fate.HOLD, Fate.LOSE_ANSWER])
def test_a_commit_that_ran_out_of_time_is_settled_by_the_next_claim(
    leader: LateLeader, fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.term.claim(Deadline.after(30))
    trap = leader.trap(Api.END_TXN, fate, times=1000, commits=True)
    while not trap.caught:  # on a busy machine the time may be over before the commit is sent
        with pytest.raises(Retriable):
            leader.write(1, seconds=5)
    assert leader.term.in_doubt
    trap.left = 0
    deliver_amid_the_next(leader, trap, monkeypatch)
    leader.write(2)
    assert end_txn_error(leader.delivered[0]) in SHUT_OUT
    carried_out = [wish(1)] if fate is Fate.LOSE_ANSWER else []
    assert leader.written() == carried_out + leader.acknowledged


@pytest.mark.parametrize("api", USED[:-1])
def test_what_is_sent_again_and_comes_late_once_more_changes_nothing(
    leader: LateLeader, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = leader.trap(api)
    leader.term.claim(Deadline.after(30))
    leader.write(1)
    deliver_amid_the_next(leader, trap, monkeypatch)
    leader.write(2)
    leader.write(3)
    assert leader.delivered
    assert leader.written() == leader.acknowledged


def test_answers_that_get_lost_change_nothing(leader: LateLeader) -> None:
    traps = [leader.trap(api, Fate.LOSE_ANSWER) for api in USED]
    leader.term.claim(Deadline.after(30))
    for number in range(3):
        leader.write(number)
    for trap in traps:
        trap.wait()
    assert leader.written() == leader.acknowledged


def test_a_claim_that_could_not_take_the_id_is_made_again_before_the_next_write(leader: LateLeader) -> None:
    trap = leader.trap(Api.INIT_PRODUCER_ID, times=1000)
    with pytest.raises(Retriable):
        leader.write(1, seconds=2)
    trap.wait()
    trap.left = 0
    leader.write(2)
    assert leader.written() == leader.acknowledged == [wish(2)]


def test_a_lookup_that_nobody_answers_does_not_hold_the_leader(
    leader: LateLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limit of a task's requests, the claim would take half a minute."""
    own_id = leader_transactional_id(leader.group)
    lives: list[Producer] = []

    def live(*args: object, **more: object) -> Producer:
        lives.append(Producer(*args, **more))  # type: ignore[arg-type]
        return lives[-1]

    def looks_up_the_group(request: Request) -> bool:
        asks = request.api == Api.FIND_COORDINATOR and request.names(leader.group) and not request.names(own_id)
        return asks and len(lives) == 1

    monkeypatch.setattr(leadership, "Producer", live)
    trap = leader.proxied.proxy.set_trap(looks_up_the_group, Fate.SILENCE, times=99)
    began = time.monotonic()
    leader.term.claim(Deadline.after(60))
    took = time.monotonic() - began
    assert trap.caught
    assert took < 20, f"{took:.1f} s"
    leader.write(1)
    assert leader.written() == leader.acknowledged
