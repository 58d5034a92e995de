"""Reads and follows the config topic: the state that every worker and the leader hold in memory.

A process has one state of the topic (`StatePublisher`). Whoever reads the topic there, or has just written it, adds to
that state what it lacks (`ConfigLog`), each with its own clients. So nobody waits for another one's request, and what
one of them has read, the others need not read.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.fencing import request_context, stages
from ringfence.fencing.clock import Deadline, boot_seconds
from ringfence.fencing.errors import CannotDecrypt, Retriable, TopicLost, Unreadable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.cluster_state import ClusterState, Fold
from ringfence.fencing.topics.config_encryption import NO_KEYS, EncryptionWatch, Vault, decrypt
from ringfence.fencing.topics.config_record import ConnectorScopedRecord
from ringfence.fencing.topics.config_records import SESSION_KEY, UnknownKey, connector_of, decode
from ringfence.fencing.topics.topic_log import PATIENCE_SECONDS, Positions, TopicLog

log = logging.getLogger(__name__)


def fold(state: ClusterState, records: Iterable[LogRecord], topic: str, vault: Vault = NO_KEYS) -> ClusterState:
    """Return the state after these records (invariant 9).

    A value that cannot be read stops the connector that its key names. An unreadable session key is dropped: the leader
    makes another, and nothing else depends on it. Raises `Unreadable` for a value under any other key, unless a later
    record with that key is readable.
    """
    nobodys: dict[bytes | None, Unreadable] = {}
    folding: Fold | None = None
    for record in records:
        folding = folding or Fold(state)
        try:
            config_record = decrypt(decode(record.key, record.value), vault)
        except Unreadable as error:
            reason = f"Topic {topic}, offset {record.offset}: {error}"
            if not isinstance(error, CannotDecrypt):
                reason += (
                    ". Everything else is kept; to continue, write a readable record or a tombstone under that key"
                )
            if record.key == SESSION_KEY:
                log.warning("Topic %s, offset %d: %s. The leader makes another", topic, record.offset, error)
                folding.forget_session_key(record.offset)
                continue
            connector = None if record.key is None else connector_of(record.key)
            if connector is None:
                nobodys[record.key] = Unreadable(reason)
                nobodys[record.key].__cause__ = error
                continue
            log.warning("%s", reason)
            folding.mark_unreadable(record.offset, connector, reason)
            continue
        if isinstance(config_record, UnknownKey) and config_record.key not in folding.unknown:
            log.warning(
                "Topic %s, offset %d: key %r is not known here, or its name is too long; it is kept, and ignored",
                topic,
                record.offset,
                config_record.key,
            )
        nobodys.pop(record.key, None)
        folding.apply(record.offset, config_record)
        request = request_context.of_headers(record.headers)
        if request.id and isinstance(config_record, ConnectorScopedRecord):
            folding.note_request(config_record.owner, request)
    for unreadable in nobodys.values():
        raise unreadable
    return folding.state if folding else state


OnRecords = Callable[[Sequence[LogRecord]], None]


def _ignore(_records: Sequence[LogRecord]) -> None:
    pass


TRUSTED_SECONDS: Final = 3600.0
"""Well below `delete.retention.ms` (a day, with which the config topic is created): no tombstone is missed
within it.
"""


class Outdated(Retriable):
    """What is known of the topic can no longer be relied on: it has to be read again from its beginning."""


@dataclass(frozen=True, slots=True)
class Version:
    """The state at one moment.

    position: all committed records before it are in `state`, and none before it can be committed any more.
    next_offset: the offset that the topic's next record gets, as far as is known; None while somebody's transaction is
    open. A record that gets this offset stands right behind `state`, however old the version is.
    """

    state: ClusterState
    position: int = 0
    next_offset: int | None = None

    def covers(self, end: int) -> bool:
        """Return whether nothing is missing in a topic with this end, except perhaps the marker of our own commit."""
        return self.position >= end or (self.next_offset is not None and self.next_offset >= end)


class StatePublisher:
    """The config topic's newest state in this process. Thread-safe; `version` needs no lock."""

    def __init__(
        self,
        topic: str,
        vault: Vault = NO_KEYS,
        new_watch: Callable[[], OnRecords] = lambda: _ignore,
        *,
        watches_encryption: bool = False,
        is_followed: bool = False,
    ) -> None:
        """vault: decrypts configurations. new_watch: returns a function that is called with all records in order, from
        the beginning, each once, unless they cannot be applied: then they come again. watches_encryption: whether to
        keep `encryption`. is_followed: whether somebody reads the topic all the time, and reads it again as a whole
        (`replace`) after `Outdated`, which is raised if nobody has read it to its end for an hour.
        """
        self.topic = topic
        self.version = Version(ClusterState())
        self.encryption = EncryptionWatch(vault)
        """Which configurations must be written again, encrypted with another key."""
        self.topic_id: str | None = None
        """Of the topic that the state is from; None before the first reader."""
        self._vault = vault
        self._new_watch = new_watch
        self._watch = new_watch()
        self._watches_encryption = watches_encryption
        self._is_followed = is_followed
        self._stable = ClusterState()  # without the records ahead of the position, so that they can be applied again
        self._ahead: Sequence[LogRecord] = ()
        self._complete_at = boot_seconds()
        self._distrust = ""
        self.is_complete = False
        """Whether it was read to its end at least once."""
        self._changed = threading.Condition()

    def renew(self) -> "StatePublisher":
        """Return a publisher with the same settings, of the same topic, that knows nothing yet."""
        other = StatePublisher(
            self.topic,
            self._vault,
            self._new_watch,
            watches_encryption=self._watches_encryption,
            is_followed=self._is_followed,
        )
        other.topic_id = self.topic_id
        return other

    def take(
        self,
        start: int,
        records: Sequence[LogRecord],
        reached: int,
        ahead: Sequence[LogRecord] = (),
        *,
        at_end: bool | None = None,
    ) -> Version:
        """Add all committed records from `start` to `reached`, and some that are committed behind it. Return the newest
        version, which may contain more.

        at_end: whether `reached` is the topic's end; None if that is unknown. Raises `Retriable` if `start` is beyond
        what is known, and the errors of `fold`; then nothing has changed.
        """
        with self._changed:
            old = self.version
            self._check_age()
            if start > old.position:
                raise Retriable(f"Topic {self.topic} is read from offset {start}, and its state is at {old.position}")
            new = [record for record in records if record.offset >= old.position]
            position = max(old.position, reached)
            # What one reader has found committed is committed for all of them.
            by_offset = {one.offset: one for one in (*self._ahead, *ahead) if one.offset >= position}
            here = [by_offset[offset] for offset in sorted(by_offset)]
            if new and self._watches_encryption:
                self.encryption.look(new)
            if new:
                self._watch(new)
            stable = fold(self._stable, new, self.topic, self._vault)
            state = old.state
            if new or [one.offset for one in here] != [one.offset for one in self._ahead]:
                state = fold(stable, here, self.topic, self._vault)
            self._stable, self._ahead = stable, here
            is_known = at_end or (at_end is None and (position > old.position or old.next_offset is not None))
            next_offset = max(position, old.next_offset or 0) if is_known and not here else None
            self._publish(Version(state, position, next_offset))
            return self.version

    def take_own(self, records: Sequence[LogRecord], decided_on: Version) -> Version:
        """Add records that the caller has just committed at `next_offset` of a version. Return a version with them.

        The marker of the commit follows them. Whatever somebody else writes before that is read by whoever reads next.
        Raises as `take`; then the topic has to be read.
        """
        first, last = records[0].offset, records[-1].offset
        with self._changed:
            # Between the version's position and its next offset is only the marker of the commit before.
            start = min(decided_on.position, first)
            version = self.take(start, records, last + 1)
            if version.position == last + 1 and version.next_offset is not None:
                self._publish(Version(version.state, version.position, last + 2))
            return self.version

    def confirm(self, at: float) -> None:
        """Note that the state was complete at this time (`boot_seconds`). Raises `Outdated`."""
        with self._changed:
            self._check_age()
            self._complete_at = max(self._complete_at, at)
            if not self.is_complete:
                self.is_complete = True
                self._changed.notify_all()

    def check_age(self) -> None:
        """Raise `Outdated` if the state may lack tombstones that are no longer in the topic."""
        with self._changed:
            self._check_age()

    def distrust(self, why: str) -> None:
        """Have everything read again from the beginning. Where a thread follows the topic, that thread does it, and
        `Outdated` is raised until then.
        """
        with self._changed:
            if self._is_followed:
                self._distrust = why
            else:
                self.replace(self.renew())

    def _check_age(self) -> None:
        if self._distrust:
            raise Outdated(self._distrust)
        age = boot_seconds() - self._complete_at
        if self._is_followed and age > TRUSTED_SECONDS:
            raise Outdated(f"Topic {self.topic} was not read for {age / 60:.0f} minutes: it is read again as a whole")

    def replace(self, other: "StatePublisher") -> None:
        """Take over what another publisher, which nobody else uses, knows of the whole topic."""
        with self._changed:
            self._stable, self._ahead, self._watch = other._stable, other._ahead, other._watch
            self.encryption, self._distrust = other.encryption, ""
            self._complete_at, self.is_complete = other._complete_at, other.is_complete
            self._publish(other.version)

    def _publish(self, version: Version) -> None:
        old = self.version
        if version.state is not old.state or version.position != old.position or version.next_offset != old.next_offset:
            self.version = version
            self._changed.notify_all()

    def wait_until(self, done: Callable[[Version], bool], seconds: float) -> Version:
        """Wait until `done` returns true, which is called with each new version, at most `seconds`. Return the newest
        version.
        """
        with self._changed:
            self._changed.wait_for(lambda: done(self.version), seconds)
            return self.version


class ConfigLog:
    """A reader of the config topic. Not thread-safe, except that any thread may read `state`.

    An open transaction does not block a read (`fencing.topics.topic_log`). Only the leader writes the topic. A leader
    reads after its own init, which has ended all that its predecessors left open, and waits for the markers of its own
    commits before it acts on them (`own`). Every other reader may ignore an open transaction: nobody has acted on it
    yet, and the leader fences before it does, after this reader's own init, which ends what the reader has begun.

    Several logs may share a publisher. A log's `state` is what it has last read, or has added itself: it does not
    change by what the others read.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        deadline: Deadline | None = None,
        vault: Vault = NO_KEYS,
        *,
        publisher: StatePublisher | None = None,
        keep_reader: bool = False,
    ) -> None:
        """vault: decrypts configurations. publisher: of the states, with its own vault; None for one that is this log's
        alone. keep_reader: see `TopicLog`.

        Raises `TopicLost` if the publisher's states are of another topic with that name.
        """
        self.topic = topic
        self.publisher = publisher or StatePublisher(topic, vault)
        self.version = self.publisher.version
        start = {0: self.version.position}
        self._log = TopicLog(
            connection, topic, start, deadline=deadline, patience_s=PATIENCE_SECONDS, keep_reader=keep_reader
        )
        if len(self._log.partitions) != 1:
            raise Unreadable(
                f"Topic {topic} has {len(self._log.partitions)} partitions and needs exactly one: name another topic "
                "in config.storage.topic, or create it again with one partition and cleanup.policy=compact"
            )
        known_id = self.publisher.topic_id = self.publisher.topic_id or self._log.topic_id
        if known_id != self._log.topic_id:
            raise TopicLost(
                f"Topic {topic} is no longer the same topic (id {self._log.topic_id}, it was {known_id}): nothing that "
                "is read from it now says anything about the cluster"
            )

    @property
    def state(self) -> ClusterState:
        """The state that was last read."""
        return self.version.state

    @property
    def position(self) -> int:
        """The offset of the next record."""
        return self.version.position

    def refresh(self, deadline: Deadline, own: int = -1) -> ClusterState:
        """Return the state at the current end of the topic (invariant 6). own: the producer id of the
        caller's commits.
        """
        with stages.stage("config-read"):
            position, now = self.publisher.version.position, boot_seconds()
            ends = self._log.request_ends(deadline)
            if ends[0] < position:
                self.publisher.distrust(
                    f"Topic {self.topic} ends at offset {ends[0]}, and was read up to {position}: its end was lost, "
                    "so it is read again as a whole"
                )
            version = self.publisher.version
            self.publisher.check_age()
            if not version.covers(ends[0]):
                version = self._catch_up(ends, deadline, own)
            elif version.next_offset is None:
                version = self.publisher.take(version.position, (), version.position, at_end=True)
            self.publisher.confirm(now)
            self.version = version
        return self.state

    def _catch_up(self, ends: Positions, deadline: Deadline, own: int) -> Version:
        start = self.publisher.version.position
        if self._log.positions[0] != start:
            self._log.restart({0: start})
        records = list(self._log.catch_up(deadline, own=own, ends=ends))
        reached = self._log.positions[0]
        return self.publisher.take(start, records, reached, self._log.ahead, at_end=reached >= ends[0])

    def take_own(self, records: Sequence[LogRecord]) -> ClusterState:
        """Apply records that the caller has just committed at the version's `next_offset`, which it need not read."""
        self.version = self.publisher.take_own(records, self.version)
        return self.state

    def poll(self, timeout: float) -> bool:
        """Apply new records; return whether the state has changed. An open transaction does not block it."""
        start = self._log.positions[0]
        if start > (position := self.publisher.version.position):
            # Records that could not be applied are read again.
            self._log.restart({0: position})
            start = position
        records = self._log.follow(timeout)
        before = self.version
        self.version = self.publisher.take(start, records, self._log.positions[0], self._log.ahead)
        return self.version.state is not before.state

    def close(self) -> None:
        self._log.close()
