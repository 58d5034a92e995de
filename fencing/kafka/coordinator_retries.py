"""Repeats requests to a group's coordinator: after each election, a group has none for a moment."""

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
"""Kafka's codes: the coordinator is loading its partition, is not available, or is another broker."""

_SECONDS: Final = 5.0
_BACKOFF: Final = Backoff(0.05, 0.5)


class NoCoordinator(Retriable):
    """The broker is not the group's coordinator, or not yet. It has done nothing."""


def await_coordinator(ask: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap `ask` so that it is repeated after `NoCoordinator`, for at most five seconds; then that error is raised."""

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
