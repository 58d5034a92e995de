"""How long connectors wait after one of their instances has ended the process that all instances share.

Each such end costs a new process, and a new start of everybody's instances. So the pause grows for that connector, and
for all connectors of its account from the third end on: else new names would bring new attempts.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ringfence.engine.plugins.errors import PluginError
from ringfence.fencing.backoff import Backoff

_BACKOFF: Final = Backoff(2, 300)
_FORGIVEN_SECONDS: Final = 900.0
_FREE_OF_ACCOUNT: Final = 2


@dataclass(slots=True)
class _Ends:
    times: int = 0
    last: float = 0.0
    until: float = 0.0


class CrashPauses:
    """The ends of the last minutes by connector and account. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._connectors: dict[str, _Ends] = {}
        self._accounts: dict[str, _Ends] = {}

    def note(self, connector: str, account: str) -> None:
        """Note that an instance has ended its process. account: "" if unknown."""
        with self._lock:
            now = self._clock()
            _count(self._connectors, connector, 0, now)
            if account:
                _count(self._accounts, account, _FREE_OF_ACCOUNT, now)

    def check(self, connector: str, account: str) -> None:
        """Raise `PluginError` if an instance of the connector must not start yet."""
        with self._lock:
            now = self._clock()
            own, all_of_account = self._connectors.get(connector, _Ends()), self._accounts.get(account, _Ends())
        if now < own.until:
            who, ends = f"connector {connector}", own
        elif now < all_of_account.until:
            who, ends = f"account {account}", all_of_account
        else:
            return
        raise PluginError(
            f"Connector {connector} is not started for {ends.until - now:.0f} s: instances of {who} have ended their "
            f"process {ends.times} times within a few minutes, the last one {now - ends.last:.0f} s ago. It is tried "
            "again by itself"
        )


def _count(by_name: dict[str, _Ends], who: str, free: int, now: float) -> None:
    for name in [name for name, ends in by_name.items() if now - ends.last > _FORGIVEN_SECONDS]:
        del by_name[name]
    ends = by_name.setdefault(who, _Ends())
    ends.times += 1
    ends.last, ends.until = now, now + _BACKOFF.pause(ends.times - free)
