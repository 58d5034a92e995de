"""A limit for calls of librdkafka that may not keep their own."""

import threading
from collections.abc import Callable

from ringfence.fencing.errors import Retriable


class Unanswered(Retriable):
    """A call has not come back. It goes on, and its client with it: use neither again."""


def call_within(seconds: float, call: Callable[[], object], doing: str) -> None:
    """Make the call on a thread of its own, and raise what it raises; `Unanswered` where it takes longer.

    A call that is given up holds its client until it ends. A frozen process may wake up to find the time over.
    """
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            outcome.append(error)
        else:
            outcome.append(None)

    thread = threading.Thread(target=run, name="limited-call", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise Unanswered(f"{doing}: Kafka's client has not come back for {seconds:.0f} s")
    if outcome[0] is not None:
        raise outcome[0]
