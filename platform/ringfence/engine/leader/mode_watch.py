"""Reports when the workers' modes differ, as in a rolling upgrade, and what is not guaranteed until they agree."""

import logging
from collections.abc import Sequence

from ringfence.fencing.ids import WorkerId
from ringfence.fencing.leader.assignment import LiveWorker
from ringfence.fencing.modes import lagging
from ringfence.fencing.topics.reporter import Reporter

log = logging.getLogger(__name__)


class ModeWatch:
    """Watches the modes for one term of the leader."""

    def __init__(self, worker: WorkerId, reporter: Reporter) -> None:
        self._worker = worker
        self._reporter = reporter
        self._last_difference = ""

    def look(self, members: Sequence[LiveWorker]) -> None:
        """Log and report a difference, once for each change."""
        difference = lagging((member.worker, member.mode) for member in members)
        if difference == self._last_difference:
            return
        self._last_difference = difference
        text = difference or "all workers are in one mode"
        log.log(logging.WARNING if difference else logging.INFO, "exactly.once.source.support: %s", text)
        self._reporter.event("leader", worker=self._worker, stage="worker modes", message=text)
