"""Workers that stand still for a while: SIGSTOP to a worker and all that it has started, SIGCONT later."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Sequence

from tests.e2e import processes
from tests.e2e.up import Up


class FrozenWorkers:
    """Those of one `up`. Any thread may call any method."""

    def __init__(self, up: Up, say: Callable[[str], None]) -> None:
        """`say` is told whom it hits, and who wakes up."""
        self._up = up
        self._say = say
        self._frozen: dict[str, tuple[Sequence[int], threading.Timer]] = {}

    @property
    def awake(self) -> list[str]:
        """The names of the workers that are not frozen."""
        names = [f"worker-{number}" for number in range(1, self._up.workers + 1)]
        return [name for name in names if name not in self._frozen]

    def freeze(self, worker: str, seconds: float) -> None:
        """Unless it is the last one awake: then no command is answered any more."""
        if len(self.awake) < 2:
            return
        self._say(f"  {worker} for {seconds:.0f} s")
        pids = processes.tree(self._up.pid(worker))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        timer = threading.Timer(seconds, self.thaw, [worker])
        timer.daemon = True
        self._frozen[worker] = (pids, timer)
        timer.start()

    def thaw(self, worker: str) -> None:
        """Also on a timer's thread: a command may wait for just this worker. Once, whoever comes first."""
        found = self._frozen.pop(worker, None)
        if found is None:
            return
        pids, timer = found
        timer.cancel()
        self._say(f"  {worker} wakes up")
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def thaw_all(self) -> None:
        """Nothing stays frozen."""
        for worker in list(self._frozen):
            self.thaw(worker)
