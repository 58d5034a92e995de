"""Wait for a condition, with an end and with words."""

import time
from collections.abc import Callable
from typing import TypeVar

from ringfence.fencing.errors import Retriable

T = TypeVar("T")
_PATIENCE, _MOST_PATIENCE = 3, 60.0
"""A busy or slow machine takes several times as long. It costs a test that passes nothing."""
_PAUSE, _LONGEST_PAUSE = 0.02, 0.1
_SHARE = 0.1
"""Of the time that was waited. A look is a request, or a topic that is read: it takes CPU from what is waited for."""


def eventually(
    condition: Callable[[], T],
    timeout: float = 10.0,
    describe: str | Callable[[], object] = "",
    *,
    pause: float | None = None,
) -> T:
    """The first true answer of `condition`; AssertionError with `describe` where none came in time.

    `timeout`: seconds on a machine without other work; it is given three times as long, or a minute more.
    `pause`: seconds between two looks. Unless it is given, it grows with the time that was waited, to a tenth of a
    second. Longer ones are for conditions that cost much, shorter ones for what must not be missed.
    `describe` says what was waited for; as a callable it is asked at the end, for what was seen instead.
    An AssertionError or Retriable inside of `condition` counts as "not yet" and is shown at the end; other errors are
    raised.
    """
    seconds = min(timeout * _PATIENCE, timeout + _MOST_PATIENCE)
    began = time.monotonic()
    deadline = began + seconds
    failure: Exception | None = None
    while True:
        try:
            answer = condition()
            if answer:
                return answer
            failure = None
        except (AssertionError, Retriable) as error:
            failure = error
        if time.monotonic() >= deadline:
            words = describe() if callable(describe) else describe or getattr(condition, "__name__", "the condition")
            raise AssertionError(f"not within {seconds:g} s: {words}") from failure
        growing = min(max(_PAUSE, _SHARE * (time.monotonic() - began)), _LONGEST_PAUSE)
        time.sleep(growing if pause is None else pause)
