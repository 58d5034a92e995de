"""Places in a pool: at most half for one account, each account with its own queue."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ringfence.engine import fair_places
from ringfence.engine.fair_places import FairPlaces, NoPlace, enter, next_in_line, place_for
from ringfence.fencing.clock import Deadline
from ringfence.requests.request import Refusal
from tests.support.waiting import eventually


def test_the_account_with_the_fewest_places_is_next() -> None:
    assert next_in_line([], {}, 2) is None
    assert next_in_line(["a", "a", "b"], {"a": 1}, 2) == 2
    assert next_in_line(["a", "b", "a"], {"a": 1, "b": 1}, 2) == 0, "the oldest of equals"
    assert next_in_line(["a", "a"], {"a": 2}, 2) is None, "its places are taken, whatever else is free"
    assert next_in_line(["a", None], {"a": 2, None: 9}, 2) == 1, "the platform's own work has no such limit"


@pytest.mark.parametrize(("total", "each"), [(1, 1), (2, 1), (3, 1), (4, 2), (24, 12)])
def test_no_account_has_more_than_half(total: int, each: int) -> None:
    places = FairPlaces(total)
    for _ in range(each):
        places.enter("a")
    with pytest.raises(NoPlace) as refused:
        places.enter("a")
    assert refused.value.own
    for number in range(total - each):
        places.enter(f"other {number}")
    with pytest.raises(NoPlace) as refused:
        places.enter("late")
    assert not refused.value.own
    places.leave("a")
    places.enter("late")


def test_ten_requests_of_one_account_delay_nobody_elses() -> None:
    places = FairPlaces(2)
    go = threading.Event()

    def work(who: str) -> str:
        places.enter(who, Deadline.after(60))
        try:
            go.wait(60)
        finally:
            places.leave(who)
        return who

    with ThreadPoolExecutor(11) as pool:
        many = [pool.submit(work, "a") for _ in range(10)]
        eventually(lambda: len(places._waiting) == 9, 30, "nine of them wait")
        began = time.monotonic()
        places.enter("b", Deadline.after(30))
        assert time.monotonic() - began < 10
        places.leave("b")
        go.set()
        assert [each.result(60) for each in many] == ["a"] * 10
    assert not places._running


def test_a_place_that_rests_is_free_for_all_accounts_but_one() -> None:
    places = FairPlaces(4)
    for _ in range(2):
        places.enter("a")
        places.leave("a", rest_s=0.3)
    with pytest.raises(NoPlace) as refused:
        places.enter("a")
    assert refused.value.own
    for who in ("b", "b", "c", "c"):
        places.enter(who)
    with pytest.raises(NoPlace):
        places.enter("a", Deadline.after(1))
    for who in ("b", "b", "c", "c"):
        places.leave(who)
    places.enter("a", Deadline.after(30))
    places.leave(None, rest_s=30)
    assert not places._resting, "the platform's own work does not rest"


def test_who_waits_in_vain_leaves_the_queue() -> None:
    places = FairPlaces(2)
    places.enter("a")
    with pytest.raises(NoPlace):
        places.enter("a", Deadline.after(0.05))
    places.enter("b", Deadline.after(0.05))
    with pytest.raises(Refusal, match="1 previews of your account, as many as it may have, are under way") as refused:
        enter(places, "previews", "a")
    assert refused.value.retry
    token = fair_places.account.set("c")
    try:
        with pytest.raises(Refusal, match="2 previews are under way"), place_for(places, "previews", Deadline.after(0)):
            pass
        places.leave("b")
        with place_for(places, "previews", Deadline.after(0)):
            assert places._running == {"a": 1, "c": 1}
    finally:
        fair_places.account.reset(token)
