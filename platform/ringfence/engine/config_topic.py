"""Opens the config topic with the keys that decrypt its configurations."""

import logging
import threading
from collections.abc import Callable

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.config_records.format import FORMAT, OLDEST, FormatRecord, next_format, refuse_old
from ringfence.worker_config import WorkerConfig


def open_config_log(config: WorkerConfig, connection: Connection, limit: Deadline) -> ConfigLog:
    """Open the config topic; the caller closes it. Raises `FencingError`."""
    return ConfigLog(connection, config.config_topic, limit, vault=config.vault)


log = logging.getLogger(__name__)

_READ_SECONDS = 60.0
_WRITE_SECONDS = 8.0
_LOOK_SECONDS = 2.0
_TELL_SECONDS = 60.0


def await_admission(
    config: WorkerConfig, connection: Connection, stop: threading.Event, on_wait: Callable[[], None] = lambda: None
) -> ConfigLog | None:
    """Wait until this version may take part, outside of the group: a member could be elected. Say each minute why not.

    on_wait: called once, before it waits. Returns the config topic as it was read, which the caller closes.
    A config topic that cannot be read keeps nobody out: leader and launcher read it, too, and tell what is wrong. Then
    it returns None.
    """
    try:
        log_ = open_config_log(config, connection, Deadline.after(_READ_SECONDS))
    except FencingError:
        return None
    pause: float | None = None
    try:
        log_.refresh(Deadline.after(_READ_SECONDS))
        while (refusal := refuse_old(log_.state.format, FORMAT)) and not stop.is_set():
            if pause is None:
                on_wait()
            if pause is None or pause <= 0:
                log.error("%s", refusal)
                pause = _TELL_SECONDS
            if not log_.poll(_LOOK_SECONDS):
                pause -= _LOOK_SECONDS
    except FencingError:
        log_.close()
        return None
    return log_


def refuse_to_lead(state: ClusterState) -> None:
    """Raise `Invalid` if this version is too old for the cluster."""
    if refusal := refuse_old(state.format, FORMAT):
        raise Invalid(refusal)


def admit(term: Term, members: list[LiveWorker]) -> list[LiveWorker]:
    """Return the workers that may take tasks, and raise the cluster's format once all of them know this version's.

    Call it on the leader's thread.
    """

    def due(state: ClusterState) -> list[FormatRecord]:
        record = next_format(state.format, (one.format for one in members), FORMAT, OLDEST)
        return [] if record == state.format else [record]

    if due(term.state):
        term.write(due, Deadline.after(_WRITE_SECONDS))
        log.info("All workers know format %d: it is the cluster's now", term.state.format.format)
    oldest = term.state.format.oldest
    return [one for one in members if one.format >= oldest]
