"""A worker that starts beside its dead namesake waits for that one's session, also when the broker was away."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest

from ringfence.engine.worker import PATIENCE_SECONDS, await_free_id
from ringfence.fencing.errors import Invalid, Retriable
from ringfence.fencing.ids import Incarnation, WorkerId, member_client_id

TOPIC, SESSION_S = "connect-configs", 10.0


@dataclass
class Clock:
    """Each look takes half a second."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now


class Ready(threading.Event):
    """Nobody waits in earnest."""

    def wait(self, timeout: float | None = None) -> bool:
        return False


@dataclass
class Member:
    client_id: str
    topics: Iterable[str] = (TOPIC,)


NAMESAKE = Member(member_client_id(WorkerId("w1"), Incarnation("old")))


def wait(
    listed: Callable[[float], list[Member]], remove_ended: Callable[[Incarnation], None] = lambda _incarnation: None
) -> float:
    """Seconds until the id was free, by a group that looks like this at each moment."""
    clock = Clock()

    def members() -> list[Member]:
        clock.now += 0.5
        return listed(clock.now)

    await_free_id("w1", "g", TOPIC, SESSION_S, members, Ready(), clock, remove_ended)
    return clock.now


def away() -> Retriable:
    return Retriable("the coordinator is loading")


def test_a_dead_namesakes_session_is_waited_for() -> None:
    assert wait(lambda now: [NAMESAKE] if now < 9 else []) == 9


def test_a_namesake_whose_process_has_ended_is_not_waited_for() -> None:
    tried: list[Incarnation] = []
    assert wait(lambda _: [] if tried else [NAMESAKE], tried.append) == 1
    assert tried == ["old"]


def test_each_incarnation_is_looked_at_once() -> None:
    tried: list[Incarnation] = []
    wait(lambda now: [NAMESAKE] if now < 9 else [], tried.append)
    assert tried == ["old"]


def test_a_broker_that_was_away_begins_the_sessions_anew() -> None:
    """It died with the worker, was away for longer than a session, and lists the dead member for another one."""

    def listed(now: float) -> list[Member]:
        if 2 < now < 40:
            raise away()
        return [NAMESAKE] if now < 51 else []

    assert wait(listed) == 51


def test_a_live_namesake_is_refused() -> None:
    with pytest.raises(Invalid, match="already has the id w1"):
        wait(lambda _: [NAMESAKE])


def test_a_broker_that_stays_away_is_an_error() -> None:
    seen = []

    def never(now: float) -> list[Member]:
        seen.append(now)
        raise away()

    with pytest.raises(Retriable):
        wait(never)
    assert seen[-1] >= PATIENCE_SECONDS


def test_strangers_in_the_group_are_refused() -> None:
    for members in ([Member("connect-1")], [Member(NAMESAKE.client_id, ("elsewhere",))]):
        with pytest.raises(Invalid, match=r"group\.id"):
            wait(lambda _, members=members: members)  # type: ignore[misc]
