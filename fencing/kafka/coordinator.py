"""A group has no coordinator for moments after each election: questions to it are asked again until it has one."""

import itertools
import time
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable

_P = ParamSpec("_P")
_T = TypeVar("_T")

MOVING: Final = frozenset({14, 15, 16})
"""Kafka's codes: it reads its partition (COORDINATOR_LOAD_IN_PROGRESS), is not there, or is another broker."""

_SECONDS: Final = 5.0
_BACKOFF: Final = Backoff(0.05, 0.5)


class NoCoordinator(Retriable):
    """The broker that was asked is not the group's coordinator, or not yet. It has done nothing."""


def await_coordinator(ask: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have `ask` asked again where it raises `NoCoordinator`, which it raises itself after five seconds."""

    @wraps(ask)
    def repeat(*args: _P.args, **more: _P.kwargs) -> _T:
        limit = Deadline.after(_SECONDS)
        for failures in itertools.count(1):
            try:
                return ask(*args, **more)
            except NoCoordinator:
                if limit.expired:
                    raise
            time.sleep(_BACKOFF.pause(failures))
        raise AssertionError("unreachable")

    return repeat
