"""Moves and alters source offsets, wherever a connector keeps them.

Step 4 of a fencing round (`fencing.leader.fencing_round`) copies the offsets if their topic has changed.

A user alters them (KIP-875) while the connector is STOPPED. The leader's transaction writes them to the worker's topic.
If the connector has its own offsets topic, there are three steps: 1 write the tombstones to the worker's topic; 2 write
the connector's topic in one transaction under the id of its task 0; 3 in the leader's transaction, update the copy in
the worker's topic and confirm the change in the config topic. A request that fails on the way can be repeated.
"""

import logging
from collections.abc import Mapping

from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.engine.leader.commands.command import CHANGED, Plan
from ringfence.engine.leader.commands.offsets import Changes, plan_alteration, require_movable
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, Fatal, FencingError, Invalid, UnknownOutcome
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.leader.fence_targets import place_of
from ringfence.fencing.leader.fencing_round import Round
from ringfence.fencing.offsets.alteration import Records, has_moved, records_to_migrate
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset, SourceOffsets, encode_value
from ringfence.fencing.offsets.stores import OffsetStores
from ringfence.fencing.share.group_moves import expand
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.requests.request import Refusal


class OffsetAlteration:
    """One request. The methods raise `Refusal`."""

    def __init__(
        self, offsets: ConnectorOffsets, name: ConnectorName, connector: ConnectorState, limit: Deadline
    ) -> None:
        self._offsets = offsets
        self._name = name
        self._connector = connector
        self._config = connector.config or {}
        self._limit = limit
        try:
            self._stores = offsets.prepare(self._config, limit)
            self._source_offsets = offsets.read(name, self._stores, limit)
        except Invalid as error:
            raise Refusal(400, f"The offsets of connector {name} cannot be reached: {error}") from error
        except FencingError as error:
            raise Refusal(
                500, f"The offsets of connector {name} cannot be read, nothing was changed: {error}"
            ) from error

    @property
    def present_offsets(self) -> list[SourceOffset]:
        """Return the current offsets, of a ledger those of each slot."""
        return list(self._source_offsets.present())

    def tombstones(self) -> list[tuple[Partition, Offset | None]]:
        """Return the changes that delete every offset."""
        return [(each.partition, None) for each in self._source_offsets.present()]

    def move(self, changes: Changes) -> Plan:
        """Carry out steps 1 and 2 if the connector has its own topic. Return the plan for the leader's write."""
        changes = expand(changes, self._source_offsets.all())
        worker = self._source_offsets.gaps
        if worker is None:
            return plan_alteration(self._name, changes, self._source_offsets, self._stores.effective.name)
        if changes:
            self._write(changes)
        return plan_alteration(self._name, changes, worker, self._stores.worker.name)

    def _write(self, changes: Changes) -> None:
        def decide(state: ConnectorState, offsets: SourceOffsets) -> Records:
            if state.config_offset != self._connector.config_offset:
                raise Conflict(CHANGED)
            require_movable(state)
            return [(offsets.key_of(partition), encode_value(offset)) for partition, offset in changes]

        require_movable(self._connector)
        topic = self._stores.effective.name
        try:
            self._offsets.write(self._name, self._config, self._stores, decide, self._limit)
        except Conflict as error:
            raise Refusal(409, str(error), retry=True) from error
        except UnknownOutcome as error:
            raise Refusal(
                500, f"Request timed out. Whether topic {topic} was written is unknown, look again: {error}"
            ) from error
        except FencingError as error:
            raise Refusal(500, f"Topic {topic} could not be written, its offsets are as they were: {error}") from error


log = logging.getLogger(__name__)

_SECONDS = 60.0
_FIRST_SECONDS = 20.0


class OffsetMigration:
    """Used on the round's thread. If it fails, the whole round is tried again."""

    def __init__(self, offsets: ConnectorOffsets) -> None:
        self._offsets = offsets

    def ids_to_fence(self, due: Round) -> list[str]:
        """Return the ids that a round without old tasks fences: an older leader may still alter offsets under them."""
        if due.target is None or self._offsets.stores(due.target, Deadline.after(_SECONDS)).own is None:
            return []
        return [self._offsets.transactional_id(due.connector)]

    def migrate(self, due: Round) -> int:
        """Copy the offsets of the old topic to the new one, and return their number. Safe to repeat."""
        if due.target is None or place_of(due.target) == place_of(due.writes):
            return 0
        limit = Deadline.after(_SECONDS)
        old, new = self._offsets.stores(due.target, limit), self._offsets.stores(due.writes, limit)
        if not has_moved(old, new):
            return 0
        self._offsets.prepare(due.writes, limit)

        def records(state: ConnectorState, offsets: SourceOffsets) -> Records:
            if state.generation != due.generation or not state.round_pending:
                raise Conflict(f"The round of {due.connector} for generation {due.generation} is over")
            return records_to_migrate(self._before(due, old, limit), offsets)

        try:
            count = self._offsets.write(due.connector, due.writes, new, records, limit)
        except Fatal as error:
            raise self._explain(error, old.effective.name, new.effective.name) from error
        log.info("Connector %s: %d offsets copied to %s", due.connector, count, new.effective.name)
        return count

    def _before(self, due: Round, old: OffsetStores, limit: Deadline) -> SourceOffsets:
        """Read the old topic. If the old credentials fail, use the new ones, provided that it is the same cluster."""
        newer = _with_newer_login(due.target or {}, due.writes)
        if newer is None:
            return self._offsets.read(due.connector, old, limit)
        try:
            return self._offsets.read(due.connector, old, Deadline.after(limit.slice(_FIRST_SECONDS)))
        except FencingError as error:
            log.info("Reading the old offsets of %s with the new credentials: %s", due.connector, error)
            return self._offsets.read(due.connector, self._offsets.stores(newer, limit), limit)

    def _explain(self, error: FencingError, old: str, new: str) -> FencingError:
        return Fatal(
            f"The source offsets could not be copied from topic {old} to {new}: {error}. No task of the new "
            f"configuration starts before they are; to continue without, set offsets.storage.topic to {old} again",
            error.code,
        )


def _with_newer_login(target: Mapping[str, str], writes: Mapping[str, str]) -> dict[str, str] | None:
    """Return the settings to read the old topic with the new login; None if nothing differs, or for another cluster."""
    topic = {OFFSETS_STORAGE_TOPIC: target.get(OFFSETS_STORAGE_TOPIC, "")}
    newer = {**writes, **topic}
    same_cluster = place_of({**target, **topic}) == place_of(newer)
    return newer if same_cluster and newer != {**target, **topic} else None
