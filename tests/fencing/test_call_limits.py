"""Calls that come back, fail, or do neither. Pure."""

import threading
from functools import partial

import pytest

from ringfence.fencing.kafka.call_timeouts import CallTimeout, call_within


def test_a_call_that_comes_back_is_over() -> None:
    made: list[int] = []
    call_within(10, partial(made.append, 1), "counting")
    assert made == [1]


def test_what_a_call_raises_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        call_within(10, lambda: 1 // 0, "dividing")


def test_a_call_that_does_not_come_back_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(CallTimeout, match="waiting: Kafka's client has not returned"):
        call_within(0.05, never.wait, "waiting")
    never.set()
