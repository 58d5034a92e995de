"""Notices the end of other workers on this machine, and takes them out of the group at once.

The group knows that a worker is gone when its session has expired, after ten seconds. Whoever shares a machine with it
can know earlier, and for certain: its process is not there any more. Then the others place its tasks, or one of them
leads, as after any departure. A worker that only hangs, or is suspended, has its process: `peer_heartbeats.py` is about
those.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from ringfence.connectors.process_tree import CannotTell, read_process
from ringfence.engine.status_log import StatusLog
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import Incarnation, WorkerId, parse_member_client_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import group_members, remove_members
from ringfence.fencing.topics.status import WorkerRecord

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 5.0
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_INIT: Final = Path("/proc/1/stat")
_DEAD_STATES: Final = frozenset("ZX")


@cache
def _machine() -> str:
    """Return what tells this machine and process namespace from all others; "" if unknown."""
    try:
        return f"{_BOOT.read_text().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def describe_process(pid: int | None = None) -> str:
    """Return what tells a process, by default this one, from all others anywhere; "" if unknown."""
    number = os.getpid() if pid is None else pid
    start = _start_of(number)
    return f"{_machine()}/{number}/{start}" if start and _machine() else ""


def _start_of(pid: int) -> str:
    """Return when a process was started; "" if there is none, or if it has ended and nobody has taken note of it."""
    try:
        process = read_process(pid)
    except CannotTell:
        return ""
    return "" if process.state in _DEAD_STATES else str(process.started)


def lives(process: str) -> bool | None:
    """Return whether the described process is there; None if it is another machine's."""
    place, _, start = process.rpartition("/")
    machine, _, pid = place.rpartition("/")
    if not start or not pid.isdecimal() or not machine or machine != _machine():
        return None
    return _start_of(int(pid)) == start


class PeerWatch:
    """`run` is the body of a thread. A process counts as dead only if this one has seen it alive."""

    def __init__(
        self, connection: Connection, groups: Iterable[str], workers: Callable[[], Mapping[WorkerId, WorkerRecord]]
    ) -> None:
        """groups: of which workers are members. workers: returns the newest status record of each."""
        self._connection = connection
        self._groups = list(groups)
        self._workers = workers
        self._living: set[tuple[WorkerId, Incarnation]] = set()

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        while not stop.wait(_LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Remove the workers that have died since the last call. One that could not be removed is tried again."""
        for record in self._workers().values():
            who = record.worker, record.incarnation
            alive = lives(record.process)
            if alive:
                self._living.add(who)
            elif alive is False and who in self._living and remove(self._connection, self._groups, *who):
                self._living.discard(who)


def remove_predecessor(
    connection: Connection, groups: Iterable[str], status_topic: str, worker: WorkerId, incarnation: Incarnation
) -> None:
    """Take this worker's earlier process out of its groups, if it was one of this machine and has ended.

    This process has not seen it alive, so all processes have to be visible here. If a live one is taken out after all,
    that costs a fence: it joins again.
    """
    if not _INIT.exists():
        return
    log_ = StatusLog(connection, status_topic)
    try:
        log_.refresh(Deadline.after(_ANSWER_SECONDS))
    except FencingError as error:
        log.info("It is unknown whether the process of worker %s has ended: %s", worker, error)
        return
    finally:
        log_.close()
    record = log_.state.workers.get(worker)
    if record is not None and record.incarnation == incarnation and lives(record.process) is False:
        remove(connection, groups, worker, incarnation)


def remove(
    connection: Connection, groups: Iterable[str], worker: WorkerId, incarnation: Incarnation, why: str = ""
) -> bool:
    """Take a worker's process out of these groups. Return whether that succeeded. why: "" if it has ended."""
    why = why or f"the process of worker {worker} has ended"
    try:
        for group in groups:
            deadline = Deadline.after(_ANSWER_SECONDS)
            members = group_members(connection, group, deadline)
            ids = [
                each.member_id for each in members if parse_member_client_id(each.client_id) == (worker, incarnation)
            ]
            if ids:
                remove_members(connection, group, ids, why, deadline)
                log.warning("Worker %s is taken out of group %s: %s", worker, group, why)
    except FencingError as error:
        log.info("Worker %s is still a member, although %s: %s", worker, why, error)
        return False
    return True
