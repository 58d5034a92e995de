"""Where a connector's source offsets are stored: the worker's offsets topic, or one of the connector's own (KIP-618).

A topic of its own is explicit (`offsets.storage.topic` in the connector's configuration) or, if tasks use transactions,
implicit: a producer for another cluster can commit offsets only there, so they are stored on that cluster in a topic
with the name of the worker's. The connector's own topic is read first; the worker's topic is the fallback.

Committed offsets of such a connector are copied to the worker's topic (`OffsetsCopy`). With the copy, the connector can
return to the worker's topic, and the cluster to a release that only has the worker's topic. The transaction is what
counts: a copy that cannot be written is reported and retried, and the task continues. A tombstone is written to the
worker's topic first, and if that fails nothing is committed: otherwise the merged view would bring the deleted offset
back once compaction has dropped the tombstone in the connector's topic.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.connectors.sdk.kafka_settings.java_names import Role, servers
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock, Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection, connection_of
from ringfence.fencing.kafka.topic_admin import TopicSpec, cluster_id, create_topics, topic_exists, topic_setting
from ringfence.fencing.offsets.source_offsets import (
    Offset,
    OffsetsSnapshot,
    Partition,
    SourceOffsets,
    canonical,
    encode_value,
    read_offsets,
)

log = logging.getLogger(__name__)

Moves = Sequence[tuple[Partition, Offset | None]]
Headers = Sequence[tuple[str, bytes]]

_WRITE_SECONDS = 30.0
_BACKOFF = Backoff(0.25, 30)
_LAST_SECONDS = 5.0


class PlainWriter(Protocol):
    """What a copy needs of `fencing.kafka.plain_producers.PlainProducer`."""

    def write(
        self,
        topic: str,
        records: Sequence[tuple[bytes, bytes | None]],
        deadline: Deadline,
        last: Headers = (),
    ) -> None: ...

    def close(self) -> None: ...


class OffsetsCopy:
    """Copies the newest offset of each source partition of one task, on its own thread, which ends with `close`."""

    def __init__(
        self,
        new_writer: Callable[[], PlainWriter],
        topic: str,
        offsets: SourceOffsets,
        report: Callable[[str], None] = lambda text: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """offsets: the worker's topic as it was read, for its keys. report: called on the thread, with each error of a
        copy.
        """
        self._new_writer = new_writer
        self._writer = new_writer()
        self._topic = topic
        self._offsets = offsets
        self._report = report
        self._clock = clock
        self._condition = threading.Condition()
        self._writing = threading.Lock()
        self._due: dict[str, tuple[Partition, Offset | None]] = {}
        self._headers: Headers = ()
        self._closed = False
        self._until: Deadline | None = None
        self._tried_last = False
        self._thread = threading.Thread(target=self._run, name="offsets-copy", daemon=True)
        self._thread.start()

    def before(self, moves: Moves) -> None:
        """Write the tombstones of a transaction, before it writes these offsets, and wait for the broker. Raises on
        failure.
        """
        deletions = [(partition, None) for partition, offset in moves if offset is None]
        if not deletions:
            return
        with self._writing:  # what is being written is older: it must not arrive after the tombstone
            with self._condition:
                for partition, _ in deletions:
                    self._due.pop(canonical(partition), None)
            self._write(deletions, Deadline.after(_WRITE_SECONDS, self._clock))

    def after(self, moves: Moves, headers: Headers = ()) -> None:
        """Copy the offsets of a committed transaction, without waiting. headers: of its last offset."""
        with self._condition:
            self._headers = headers
            for partition, offset in moves:
                if offset is not None:
                    self._due[canonical(partition)] = (partition, offset)
            self._condition.notify_all()

    def close(self, seconds: float = _LAST_SECONDS) -> None:
        """Write what is pending, within `seconds`, and end."""
        with self._condition:
            self._closed = True
            self._until = Deadline.after(seconds, self._clock)
            self._condition.notify_all()
        self._thread.join(seconds + 1)

    def _write(self, moves: Moves, deadline: Deadline, headers: Headers = ()) -> None:
        records = [(self._offsets.key_of(partition), encode_value(offset)) for partition, offset in moves]
        try:
            self._writer.write(self._topic, records, deadline, headers)
        except FencingError:
            # What this one still buffers must not arrive after what is written next.
            self._writer.close()
            self._writer = self._new_writer()
            raise

    def _run(self) -> None:
        failures, pause = 0, 0.0
        try:
            while self._wait(pause):
                try:
                    self._copy()
                    failures, pause = 0, 0.0
                except FencingError as error:
                    failures += 1
                    pause = _BACKOFF.pause(failures)
                    log.warning("Offsets were committed, and their copy to %s failed: %s", self._topic, error)
                    self._report(
                        f"Committed offsets could not be copied to {self._topic}: {error}. The task continues, because "
                        f"its own offsets topic has them; the copy is retried in {pause:.1f} s"
                    )
        finally:
            self._writer.close()

    def _wait(self, pause: float) -> bool:
        """Wait until something is pending and the pause is over. False at the end."""
        with self._condition:
            if pause:
                self._condition.wait_for(lambda: self._closed, pause)
            self._condition.wait_for(lambda: self._closed or bool(self._due))
            last, self._tried_last = self._tried_last, self._closed
            return bool(self._due) and not last

    def _copy(self) -> None:
        with self._writing:
            with self._condition:
                due, self._due, headers = self._due, {}, self._headers
                left = self._until.remaining if self._until is not None else _WRITE_SECONDS
            try:
                self._write(list(due.values()), Deadline.after(max(0.01, left), self._clock), headers)
            except FencingError:
                with self._condition:
                    self._due = {**due, **self._due}
                raise


PREFIX: Final = "offset.storage."
"""The worker's settings of its offsets topic. All but the numbers of partitions and replicas are topic settings."""

COMPACTED_SOON: Final[Mapping[str, str]] = {
    "segment.ms": str(3600 * 1000),
    "segment.bytes": str(64 * 1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}

_NO_TOPIC_SETTING: Final = frozenset({"topic", "partitions", "replication.factor"})
_DEFAULT_PARTITIONS: Final = "25"
_DEFAULT_REPLICATION: Final = "3"
_SECONDS: Final = 30.0

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """An offsets topic, and how to read it."""

    name: str
    reading: Connection


@dataclass(frozen=True, slots=True)
class OffsetStores:
    """A connector's offsets topics. `own` is None if the worker's is the only one; `admin` creates `own`."""

    worker: OffsetsTopic
    own: OffsetsTopic | None
    admin: Connection

    @property
    def effective(self) -> OffsetsTopic:
        """The topic that the connector's transactions write to."""
        return self.own or self.worker


def stores_of(
    base: Connection, worker_topic: str, worker_settings: Settings, connector_config: Settings, *, transactional: bool
) -> OffsetStores:
    """Return the topics by the settings alone. base: the worker's cluster and credentials; transactional: tasks use
    transactions.

    Raises `Invalid` for client settings that cannot be used.
    """
    reading = connection_of(Role.CONSUMER, base, worker_settings, connector_config)
    admin = connection_of(Role.ADMIN, base, worker_settings, connector_config)
    where = connection_of(Role.PRODUCER, base, worker_settings, connector_config).bootstrap
    elsewhere = servers(where) != servers(base.bootstrap)
    own_topic = connector_config.get(OFFSETS_STORAGE_TOPIC, "").strip()
    separate = (own_topic or worker_topic) != worker_topic or (elsewhere and (transactional or bool(own_topic)))
    if not separate:
        return OffsetStores(OffsetsTopic(worker_topic, base if elsewhere else reading), None, admin)
    return OffsetStores(OffsetsTopic(worker_topic, base), OffsetsTopic(own_topic or worker_topic, reading), admin)


def resolve(stores: OffsetStores, deadline: Deadline) -> OffsetStores:
    """Return the same after a check of the clusters: the own topic may be the worker's with another address.

    If the two were taken for different topics, the copy would write older offsets after newer ones of the same topic.
    """
    own, worker = stores.own, stores.worker
    if own is None or own.name != worker.name:
        return stores
    if cluster_id(stores.admin, deadline) != cluster_id(worker.reading, deadline):
        return stores
    return OffsetStores(own, None, stores.admin)


def offsets_topic_spec(name: str, worker_settings: Settings) -> TopicSpec:
    """Return how an offsets topic is created: with the worker's partitions, replicas and settings, and always
    compacted.

    Unless the worker's settings differ, its segments are closed early: Kafka compacts closed segments only.
    """
    more = {
        key.removeprefix(PREFIX): value
        for key, value in worker_settings.items()
        if key.startswith(PREFIX) and key.removeprefix(PREFIX) not in _NO_TOPIC_SETTING
    }
    return TopicSpec(
        name,
        int(worker_settings.get(f"{PREFIX}partitions", _DEFAULT_PARTITIONS)),
        int(worker_settings.get(f"{PREFIX}replication.factor", _DEFAULT_REPLICATION)),
        {**COMPACTED_SOON, **more, "cleanup.policy": "compact"},
    )


def ensure_own_topic(stores: OffsetStores, worker_settings: Settings, deadline: Deadline) -> None:
    """Create the connector's own topic if it is missing, with its admin settings; refuse one that loses offsets.

    Raises `Retriable` if the brokers do not answer, otherwise `Fatal` with the remedy.
    """
    if stores.own is None:
        return
    name, admin = stores.own.name, stores.admin
    while True:
        try:
            if not topic_exists(admin, name, deadline):
                create_topics(admin, [offsets_topic_spec(name, worker_settings)], deadline)
                return
            policy = topic_setting(admin, name, "cleanup.policy", deadline)
            break
        except Retriable:
            if deadline.expired:
                raise
        except FencingError as error:
            raise Fatal(
                f"The connector's offsets topic {name} could not be prepared: {error}. Create it by hand, compacted, "
                f"or grant Create and Describe on it, or correct the worker's {PREFIX}*; nothing was read or written",
                error.code,
            ) from error
    if policy is not None and [part.strip() for part in policy.split(",")] != ["compact"]:
        raise Fatal(
            f"The connector's offsets topic {name} has cleanup.policy={policy}: source offsets would be deleted, and "
            f"records read again. Set cleanup.policy=compact on it, or name another topic in {OFFSETS_STORAGE_TOPIC}"
        )


def read_merged(
    stores: OffsetStores,
    connector: ConnectorName,
    deadline: Deadline,
    give_up: Callable[[], bool] = lambda: False,
    *,
    snapshots: Sequence[OffsetsSnapshot] = (),
    report: Callable[[str], None] = lambda _text: None,
    patience_s: float = 0.0,
    most_bytes: int | None = None,
) -> SourceOffsets:
    """Read the connector's committed offsets to the end of its topics: its own first, then the worker's as the
    fallback.

    snapshots, report, patience_s, most_bytes: see `read_offsets`.
    """

    def read(topic: OffsetsTopic) -> SourceOffsets:
        return read_offsets(
            topic.reading,
            topic.name,
            connector,
            deadline,
            give_up,
            snapshots=snapshots,
            report=report,
            patience_s=patience_s,
            most_bytes=most_bytes,
        )

    offsets = read(stores.effective)
    if stores.own is not None:
        offsets.gaps = read(stores.worker)
    return offsets


def prepare(stores: OffsetStores, worker_settings: Settings, deadline: Deadline | None = None) -> OffsetStores:
    """`resolve`, and create the own topic. Call it before a connector instance or a task starts."""
    limit = deadline or Deadline.after(_SECONDS)
    result = resolve(stores, limit)
    ensure_own_topic(result, worker_settings, limit)
    return result
