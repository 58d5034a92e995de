"""Wait for a condition, with an end and with words."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    condition: Callable[[], T],
    timeout: float = 10.0,
    describe: str | Callable[[], object] = "",
    *,
    pause: float = 0.02,
) -> T:
    """The first true answer of `condition`; AssertionError with `describe` where none came within `timeout` seconds.

    `pause`: seconds between two looks; longer ones for conditions that cost something.
    `describe` says what was waited for; as a callable it is asked at the end, for what was seen instead.
    An AssertionError inside of `condition` counts as "not yet" and is shown at the end; other errors are raised.
    """
    deadline = time.monotonic() + timeout
    failure: AssertionError | None = None
    while True:
        try:
            answer = condition()
            if answer:
                return answer
            failure = None
        except AssertionError as error:
            failure = error
        if time.monotonic() >= deadline:
            words = describe() if callable(describe) else describe or getattr(condition, "__name__", "the condition")
            raise AssertionError(f"not within {timeout} s: {words}") from failure
        time.sleep(pause)
