"""Why this worker's projector waits, for its heartbeat: a process that cannot write rows still can say so."""

import threading


class ProjectionTrouble:
    """The projector's thread writes it, the heartbeat's reads it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""

    def note(self, reason: str) -> None:
        """Note why nothing is written; "" once something is again. No value of a row or record belongs here."""
        with self._lock:
            self._reason = reason

    @property
    def reason(self) -> str:
        with self._lock:
            return self._reason


current = ProjectionTrouble()
"""Of this process."""
