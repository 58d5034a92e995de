"""Probes whether a worker reaches Kafka or Redis, on a thread of its own: what hangs delays nothing else."""

import threading
import time
from collections.abc import Callable
from typing import Final

_PROBE_SECONDS: Final = 1.0
_HUNG_SECONDS: Final = 8.0
_SURE: Final = 2
"""Failed probes in a row before an error is reported: a restarting broker is briefly unreachable."""

Probe = Callable[[], str]
"""Returns why something does not answer, "" if it does. Takes seconds at most."""


class HealthProbe:
    """Probes repeatedly on its own thread. Any thread may read `error`."""

    def __init__(self, probe: Probe, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._began: float | None = None
        """When the probe in progress began. A process that is frozen between two probes does not find one hanging."""
        self._failures = 0
        self._error = ""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        while not stop.is_set():
            self.once()
            stop.wait(_PROBE_SECONDS)

    def once(self) -> None:
        """Probe once."""
        self._began = self._clock()
        error = self._probe()
        self._failures = self._failures + 1 if error else 0
        self._error, self._began = error, None

    @property
    def error(self) -> str:
        """ "" while it answers, and for one failure after it did."""
        began = self._began
        if began is not None and self._clock() - began > _HUNG_SECONDS:
            return self._error or "no answer"
        return self._error if self._failures >= _SURE else ""
