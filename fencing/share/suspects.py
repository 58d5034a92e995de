"""Records that only the sweep still brings: whether one of them ends its process each time that it is tried.

A process that is gone cannot say what it died of. So a try is noted in the ledger, in a transaction of its own, before
it is made. Twice it is made together with others; then the record is tried alone, and noted alone, so that no other is
blamed for it. What was tried alone as often as the broker may deliver it, and was never committed, is exhausted.
"""

from collections import deque
from collections.abc import Iterable

from ringfence.fencing.share.claims import SlotClaims
from ringfence.fencing.share.records import ShareRecord
from ringfence.fencing.share.settings import Exhausted

_TOGETHER = 2


class Suspects:
    """One process's: what it has noted and tried once is not noted again while it lives."""

    def __init__(self, claims: SlotClaims, tries: int, exhausted: Exhausted) -> None:
        """tries: after how many alone a record is exhausted."""
        self._claims = claims
        self._tries = tries + _TOGETHER
        self._exhausted = exhausted
        self._waiting: deque[ShareRecord] = deque()
        self._noted: list[ShareRecord] = []
        self._tried: set[tuple[object, int]] = set()

    def add(self, records: Iterable[ShareRecord]) -> None:
        """What the sweep has found."""
        self._waiting.extend(records)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._noted)

    def note(self) -> list[ShareRecord]:
        """Count the next tries in the open transaction. Returns what is exhausted, and is not tried any more."""
        while self._waiting and not self._noted:
            record = self._waiting.popleft()
            if self._claims.is_done(record.tp, record.offset):
                continue
            times = self._claims.find_tries(record.tp, record.offset)
            if (record.tp, record.offset) in self._tried:
                self._noted = [record]  # this process has survived it
            elif times >= self._tries and self._exhausted is Exhausted.DEAD_LETTER:
                return [record]
            else:
                self._count(record, times + 1)
                while times < _TOGETHER and self._waiting and self._find_times(self._waiting[0]) == times:
                    self._count(self._waiting.popleft(), times + 1)
        return []

    def _find_times(self, record: ShareRecord) -> int:
        return self._claims.find_tries(record.tp, record.offset)

    def _count(self, record: ShareRecord, times: int) -> None:
        record.alone = times > _TOGETHER
        self._claims.count_try(record.tp, record.offset, times)
        self._noted.append(record)

    def take(self) -> list[ShareRecord]:
        """What was noted, once that is committed: to be tried now."""
        taken, self._noted = self._noted, []
        self._tried.update((record.tp, record.offset) for record in taken)
        return taken

    def restart(self) -> None:
        """What was not tried yet is found again by the sweep."""
        self._waiting.clear()
        self._noted.clear()
