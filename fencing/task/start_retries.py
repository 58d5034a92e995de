"""How often an attempt starts again after an abort, and when it fails instead."""

from typing import Final

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.task.transaction_timeouts import TRANSACTION_TIMED_OUT
from ringfence.fencing.transactions.error_codes import ErrorCode

_MOST_HOPELESS: Final = 5
_BACKOFF: Final = Backoff(0.05, 10)
_NEVER_BETTER: Final = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, TRANSACTION_TIMED_OUT}


class StartRetries:
    """Counts the starts in a row that committed nothing."""

    def __init__(self) -> None:
        self._without_progress = self._hopeless = 0

    def pause_after(self, error: FencingError, *, progress: bool) -> float:
        """Return the seconds to wait before the next start.

        progress: something was committed since the last start. Raises Fatal where the next start would fail for the
        same reason as all those before.
        """
        self._without_progress = 0 if progress else self._without_progress + 1
        self._hopeless = self._hopeless + 1 if self._without_progress and error.code in _NEVER_BETTER else 0
        if self._hopeless >= _MOST_HOPELESS:
            raise Fatal(
                f"{error}. Nothing of it is visible to a read_committed reader, and the source offsets are "
                f"unchanged. It happened {self._hopeless} times in a row: fix the cause, then restart the task",
                error.code,
            )
        return _BACKOFF.pause(self._without_progress + 1)
