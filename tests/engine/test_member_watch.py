"""The leader's thread does not wait for the brokers' list of members."""

import threading
import time

import pytest

from ringfence.engine.leader import members
from ringfence.engine.leader.members import MemberWatch
from ringfence.fencing.errors import Retriable
from ringfence.fencing.ids import Incarnation, WorkerId, member_client_id
from ringfence.fencing.kafka.consumer_groups import GroupMember
from ringfence.fencing.topics.status import StatusState, WorkerRecord
from tests.support.waiting import eventually

W1 = WorkerRecord(WorkerId("w1"), Incarnation("i1"), "enabled", 8, "1", 0)
STATUS = StatusState(workers={W1.worker: W1})


class Brokers:
    """Answer when they are let, or fail."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = 0
        self.error: Exception | None = None

    def ask(self) -> list[GroupMember]:
        self.asked += 1
        assert self.may_answer.wait(10)
        if self.error is not None:
            raise self.error
        client_id = member_client_id(WorkerId("w1"), Incarnation("i1"))
        return [GroupMember(client_id, "m1", frozenset())]


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setattr(members, "_SECONDS", 0.0)
    return Brokers()


def names(watch: MemberWatch) -> list[str] | None:
    found = watch.find(STATUS)
    return None if found is None else [member.worker for member in found]


def test_it_returns_at_once_and_knows_nobody_before_the_first_answer(brokers: Brokers) -> None:
    watch = MemberWatch(brokers.ask)
    began = time.monotonic()
    assert names(watch) is None
    assert time.monotonic() - began < 5  # the answer would come after 10 s
    brokers.may_answer.set()
    eventually(lambda: names(watch) == ["w1"], 10, "the answer")
    watch.close()


def test_a_slow_question_leaves_the_last_answer_and_is_asked_once(brokers: Brokers) -> None:
    watch = MemberWatch(brokers.ask)
    brokers.may_answer.set()
    eventually(lambda: names(watch) == ["w1"], 10, "the answer")
    brokers.may_answer.clear()
    eventually(lambda: watch.find(STATUS) is not None and not brokers.may_answer.is_set(), 10, "a look")
    before = brokers.asked
    assert [names(watch) for _ in range(50)] == [["w1"]] * 50
    assert brokers.asked <= before + 1
    brokers.may_answer.set()
    watch.close()


def test_a_question_that_fails_is_reported_and_nobody_is_known_until_the_next_answer(brokers: Brokers) -> None:
    watch = MemberWatch(brokers.ask)
    brokers.may_answer.set()
    eventually(lambda: names(watch) == ["w1"], 10, "the answer")
    brokers.error = Retriable("no broker answers")

    def fails() -> bool:
        try:
            watch.find(STATUS)
        except Retriable:
            return True
        return False

    eventually(fails, 10, "the error")
    brokers.may_answer.clear()
    brokers.error = None
    eventually(lambda: names(watch) is None or fails(), 10, "nobody")
    brokers.may_answer.set()
    eventually(lambda: fails() or names(watch) == ["w1"], 10, "the next answer")
    watch.close()


def test_a_new_term_begins_without_the_answers_of_the_last_one(brokers: Brokers) -> None:
    watch = MemberWatch(brokers.ask)
    brokers.may_answer.set()
    eventually(lambda: names(watch) == ["w1"], 10, "the answer")
    brokers.may_answer.clear()
    watch.begin()
    assert names(watch) is None
    brokers.may_answer.set()
    eventually(lambda: names(watch) == ["w1"], 10, "the next answer")
    watch.close()
