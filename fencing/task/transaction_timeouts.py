"""A transaction that outlived its timeout (KIP-618, "Offset (and record) writes"): the broker has aborted it.

To the client this looks like another producer with the id, or like a slow broker. The transaction's age shows the
difference (the config topic says whether there is another producer), and the error names the KIP's four remedies.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ringfence.fencing.errors import Abortable, Fenced

TRANSACTION_TIMED_OUT = "TRANSACTION_TIMED_OUT"
"""The code of such an error."""

_REMEDIES = (
    "(1) tune the producer for throughput: producer.override.batch.size, producer.override.linger.ms, "
    "producer.override.compression.type; "
    "(2) raise producer.override.transaction.timeout.ms, up to the broker's transaction.max.timeout.ms; "
    "(3) with transaction.boundary=interval, lower transaction.boundary.interval.ms; "
    "(4) set transaction.boundary=poll"
)


@contextmanager
def timeouts_explained(open_s: Callable[[], float], timeout_ms: int) -> Iterator[None]:
    """Add this code and the remedies to an error that the block raises, if the open transaction is too old.

    open_s: returns the age of the open transaction, 0 if there is none. The error keeps its type: after a `Fenced`, the
    config topic must still be read.
    """
    try:
        yield
    except (Fenced, Abortable) as error:
        age = open_s()
        if age * 1000 < timeout_ms:
            raise
        raise type(error)(
            f"A transaction was open for {age:.1f} s, its timeout is {timeout_ms / 1000:g} s ({error}). "
            f"Any of these helps: {_REMEDIES}",
            TRANSACTION_TIMED_OUT,
        ) from error
