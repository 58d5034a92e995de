"""Writes one topic's rows, and moves its position by compare-and-set in the same transaction.

Status, events and source offsets are only shown, and tasks write them. So a record that cannot be written is left out,
with a warning in the log: else whoever has written it would stop what everybody sees. The config topic's records are
what the platform acts on, so nothing is left out there.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.db import DataError, connection, transaction
from django.db import Error as AnyDatabaseError

from ringfence.fencing.errors import TopicLost
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.topic_ids import PRECIOUS, Loss, Topic, TopicIds, explanation
from ringfence.lock_waits import give_way
from ringfence.projection import cluster_topics, config_rows, event_rows, offset_rows, positions, status_rows
from ringfence.projection.positions import Position
from ringfence.projection.records import Record

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rows:
    """The functions that write the records of a role as rows, and that delete these rows."""

    write: Callable[[Sequence[Record]], set[str]]
    forget: Callable[[], None]


_ROWS = {
    "offsets": Rows(offset_rows.write, offset_rows.forget),
    "status": Rows(status_rows.write, status_rows.forget),
    "events": Rows(event_rows.write, event_rows.forget),
}


class Projection:
    """One topic's rows and position. It needs no Kafka: `apply` gets records, and the reader's position after them."""

    def __init__(self, role: str, topic: str, topic_id: str, ids: TopicIds | None = None) -> None:
        """Read the position, and start over if the rows came from another topic of that role.

        ids: the cluster's topics. Raises `TopicLost` for a config or offsets topic that is not one of them.
        """
        self.role, self.topic, self.topic_id = role, topic, topic_id
        self._state = ClusterState()
        stand = positions.read_position(role)
        if stand.topic_id and (stand.topic_id, stand.topic) != (topic_id, topic):
            replaced = role in PRECIOUS and stand.topic == topic
            if replaced and not cluster_topics.accepts(ids, role, Topic(topic, topic_id)):
                raise TopicLost(explanation([Loss(role, topic, stand.topic_id, topic_id)]))
            log.warning("The %s topic has been replaced (%s, id %s): its rows are made again", role, topic, topic_id)
            with transaction.atomic():
                positions.delete_outdated(role, topic, topic_id)
                (config_rows.delete_outdated if role == "config" else _ROWS[role].forget)()
            stand = positions.read_position(role)
        self._stand = Position(topic, topic_id, dict(stand.offsets or {}))

    @property
    def start(self) -> dict[int, int]:
        """Return where to start reading: the config topic at its beginning, since its state is only in memory."""
        return {} if self.role == "config" else dict(self._stand.offsets or {})

    def behind(self, reached: Mapping[int, int]) -> bool:
        """Return whether `reached` is past the stored position."""
        return any(offset > self._stand.next_offset(p) for p, offset in reached.items())

    def apply(self, records: Sequence[Record], reached: Mapping[int, int]) -> set[str]:
        """Write the rows of these records and store `reached`. Return the connectors that changed.

        Raises `Superseded`; then nothing is written.
        """
        offsets = self._stand.offsets or {}
        new = [record for record in records if record.offset >= self._stand.next_offset(record.partition)]
        reached = {p: max(offset, offsets.get(p, 0)) for p, offset in reached.items()}
        change = config_rows.ConfigChange(self._state)
        if self.role == "config":
            old = [record for record in records if record.offset < self._stand.next_offset(record.partition)]
            change = config_rows.fold(config_rows.fold(self._state, old, self.topic).state, new, self.topic)
        give_way(connection)
        with transaction.atomic():
            positions.move(self.role, self.topic, self.topic_id, offsets, reached)
            if self.role != "config":
                touched = self._write(new)
            else:
                touched = config_rows.write(change) if new else set()
        self._state = change.state
        self._stand = Position(self.topic, self.topic_id, {**offsets, **reached})
        return touched

    def show(self, ahead: Sequence[Record], reached: Mapping[int, int]) -> set[str]:
        """Write the rows of records that are committed after an open transaction, without moving the position.

        reached: the reader's position, before that transaction. `apply` gets the records again. Raises `Superseded`.
        """
        if not ahead:
            return set()
        ends: dict[int, int] = {}
        for record in ahead:
            ends[record.partition] = max(ends.get(record.partition, 0), record.offset + 1)
        here = {p: max(reached.get(p, 0), self._stand.next_offset(p)) for p in ends}
        give_way(connection)
        with transaction.atomic():
            positions.move(self.role, self.topic, self.topic_id, self._stand.offsets or {}, here)
            positions.store_shown_offsets(self.role, here, ends)
            if self.role == "config":
                touched = config_rows.write(config_rows.fold(self._state, ahead, self.topic))
            else:
                touched = self._write(ahead)
        self._stand = Position(self.topic, self.topic_id, {**(self._stand.offsets or {}), **here})
        return touched

    def _write(self, records: Sequence[Record]) -> set[str]:
        """Write the rows of the records that can be written. Inside the transaction."""
        if not records:
            return set()
        try:
            with transaction.atomic():
                return _ROWS[self.role].write(records)
        except Exception as error:
            if isinstance(error, AnyDatabaseError) and not _is_about_values(error):
                raise
            if len(records) == 1:
                at = f"{self.topic}-{records[0].partition}, offset {records[0].offset}"
                log.warning("%s: left out, because its rows cannot be written: %s", at, type(error).__name__)
                return set()
        half = len(records) // 2
        return self._write(records[:half]) | self._write(records[half:])

    def remove_others(self) -> set[str]:
        """At the config topic's end, remove the connectors that it does not have. Raises `Superseded`."""
        with transaction.atomic():
            if (self._stand.offsets or {}).get(0) is not None:
                positions.lock_position(self.role, 0, self._stand.next_offset(0))
            return config_rows.remove_others(self._state)


def _is_about_values(error: AnyDatabaseError) -> bool:
    """Return whether the database refuses what is written, and not the connection, the lock or the disk.

    PostgreSQL reports values beyond its limits as an operational error (class 54).
    """
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return isinstance(error, DataError) or state.startswith("54")
