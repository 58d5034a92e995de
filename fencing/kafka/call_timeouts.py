"""A time limit for calls of librdkafka that may exceed their own."""

import threading
from collections.abc import Callable

from ringfence.fencing.errors import Retriable


class CallTimeout(Retriable):
    """A call has not returned. It is still running and uses its client: do not use the client again."""


def call_within(seconds: float, call: Callable[[], object], doing: str) -> None:
    """Make the call on a separate thread, and raise its error, or `CallTimeout` if it takes longer than `seconds`.

    An abandoned call keeps its client until it ends. The time also passes while the process is suspended.
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
        raise CallTimeout(f"{doing}: Kafka's client has not returned for {seconds:.0f} s")
    if outcome[0] is not None:
        raise outcome[0]
