"""The config topic as a worker reads it: with the keys that decrypt its configurations, and once for all its threads.

The launcher, the leader's term and whatever needs the topic's end for a request share one state. A thread follows the
topic for them; who needs its end asks for that, and reads only what the thread has not read yet.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from ringfence.encryption import KeyringSigner
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Invalid, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import ConfigLog, OnRecords, Outdated, StatePublisher, Version
from ringfence.fencing.topics.config_records.format import FORMAT, OLDEST, FormatRecord, next_format, refuse_old
from ringfence.fencing.topics.leader_stamps import Foreign, StampWatch
from ringfence.worker_config import WorkerConfig

ReadState = Callable[[Deadline], ClusterState]
"""Returns the state at the current end of the config topic (invariant 6). Raises `FencingError`."""


def open_config_log(config: WorkerConfig, connection: Connection, limit: Deadline) -> ConfigLog:
    """Open the config topic; the caller closes it. Raises `FencingError`."""
    return ConfigLog(connection, config.config_topic, limit, vault=config.vault)


def read_whole(config: WorkerConfig, connection: Connection, limit: Deadline) -> ClusterState:
    """Read the topic from its beginning, where nobody follows it: a `ReadState` with its first arguments."""
    with closing(open_config_log(config, connection, limit)) as log_:
        return log_.refresh(limit)


log = logging.getLogger(__name__)

_WAIT_SECONDS: Final = 0.2
_AGAIN_SECONDS: Final = 1.0
_OPEN_SECONDS: Final = 30.0
_READ_SECONDS: Final = 60.0
_WRITE_SECONDS: Final = 8.0
_LOOK_SECONDS: Final = 2.0
_TELL_SECONDS: Final = 60.0
_CONFIRM_SECONDS: Final = 60.0
"""How often the follower makes sure that it has read the topic to its end, and that it is the same topic."""
_CONFIRM_PATIENCE_SECONDS: Final = 5.0
_RACES: Final = 3


class ConfigTopic:
    """The state of the config topic in this process. `run` is the body of a thread; any thread may call the rest."""

    def __init__(self, config: WorkerConfig, connection: Connection) -> None:
        self._connection = connection
        self._topic = config.config_topic
        self._foreign: list[Foreign] = []
        self.publisher = StatePublisher(
            self._topic, config.vault, self._new_watch, watches_encryption=True, is_followed=True
        )
        self._failure: FencingError | None = None
        self._log: ConfigLog | None = None  # of the thread that follows
        self._confirm_at = 0.0

    def _new_watch(self) -> OnRecords:
        watch = StampWatch(self._topic, KeyringSigner())
        return lambda records: self._foreign.extend(watch.look(records))

    @property
    def foreign(self) -> Sequence[Foreign]:
        """The records that no leader of this cluster has written, as far as the topic was read, only added to. A record
        that was read again is there twice.
        """
        return self._foreign

    def state(self) -> ClusterState | None:
        """Return the newest state that is known here; None before the topic was read to its end once."""
        return self.publisher.version.state if self.publisher.is_complete else None

    def version_of(self, topic_id: str) -> Version | None:
        """Return the newest version, from which a reader of the topic with this id may go on. None if the topic was not
        read yet, or if somebody's open transaction stands behind that version's position.
        """
        publisher = self.publisher
        version = publisher.version
        is_whole = publisher.is_complete and version.next_offset is not None
        return version if is_whole and publisher.topic_id == topic_id else None

    def read(self, deadline: Deadline) -> ClusterState:
        """Return the state at the current end of the topic (invariant 6). Raises `FencingError`."""
        with closing(self._open(deadline)) as log_:
            return log_.refresh(deadline)

    def await_change(self, before: ClusterState | None, seconds: float) -> ClusterState | None:
        """Wait for another state than `before`, at most `seconds`. Return the newest one, as `state`."""
        self.publisher.wait_until(lambda _: self.state() is not before, seconds)
        return self.state()

    def check(self) -> None:
        """Raise what prevents `run` from reading."""
        if (failure := self._failure) is not None:
            raise failure.with_traceback(None)  # else it would grow with each call

    def run(self, stop: threading.Event) -> None:
        """Follow the topic until `stop`. What prevents it is raised by `check`, and tried again."""
        try:
            while not stop.is_set():
                self._step(stop)
        finally:
            self._close()

    def _step(self, stop: threading.Event) -> None:
        try:
            self._follow()
            self._failure = None
        except Outdated as error:
            if self._failure is None:
                log.warning("%s", error)
            self._failure = error
            self._read_again(stop)
        except Retriable as error:
            self._failure = error
            stop.wait(_WAIT_SECONDS)
        except FencingError as error:
            if self._failure is None:
                log.exception("The config topic cannot be read")
            self._failure = error
            self._close()
            stop.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        if self._log is None:
            self._log = self._open_at_end()
            self._confirm_at = time.monotonic() + _CONFIRM_SECONDS
        elif time.monotonic() >= self._confirm_at:
            self._confirm_at = time.monotonic() + _CONFIRM_SECONDS
            self._log.refresh(Deadline.after(_CONFIRM_PATIENCE_SECONDS))
        self._log.poll(_WAIT_SECONDS)

    def _close(self) -> None:
        log_, self._log = self._log, None
        if log_ is not None:
            log_.close()

    def _open_at_end(self) -> ConfigLog:
        """Open the topic, and read it to its end at once: a record that cannot be read may be replaced by then."""
        log_ = self._open(Deadline.after(_OPEN_SECONDS))
        try:
            log_.refresh(Deadline.after(_READ_SECONDS))
        except FencingError:
            log_.close()
            raise
        return log_

    def _open(self, deadline: Deadline) -> ConfigLog:
        return ConfigLog(self._connection, self._topic, deadline, publisher=self.publisher)

    def _read_again(self, stop: threading.Event) -> None:
        """Read the topic from its beginning, and publish that state."""
        publisher, deadline = self.publisher.renew(), Deadline.after(_READ_SECONDS)
        try:
            with closing(ConfigLog(self._connection, self._topic, deadline, publisher=publisher)) as log_:
                for _ in range(_RACES):  # a leader here may write in the meantime
                    log_.refresh(deadline)
                    if publisher.version.position >= self.publisher.version.position:
                        break
        except FencingError as error:
            self._failure = error
            stop.wait(_AGAIN_SECONDS)
            return
        self.publisher.replace(publisher)


def await_admission(topic: ConfigTopic, stop: threading.Event, on_wait: Callable[[], None] = lambda: None) -> None:
    """Wait until this version may take part, outside of the group: a member could be elected. Say each minute why not.

    on_wait: called once, before it waits. A config topic that cannot be read keeps nobody out: leader and launcher read
    it, too, and tell what is wrong.
    """
    pause: float | None = None
    try:
        while (refusal := refuse_old(topic.read(Deadline.after(_READ_SECONDS)).format, FORMAT)) and not stop.is_set():
            if pause is None:
                on_wait()
            if pause is None or pause <= 0:
                log.error("%s", refusal)
                pause = _TELL_SECONDS
            if not stop.wait(_LOOK_SECONDS):
                pause -= _LOOK_SECONDS
    except FencingError as error:
        log.info("Whether this version may take part could not be read: %s", error)


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
