"""Alters source offsets for a user (KIP-875), wherever the connector keeps them.

The leader's transaction writes them to the worker's topic. If the connector has its own offsets topic, there are three
steps: 1 write the tombstones to the worker's topic; 2 write the connector's topic in one transaction under the id of
its task 0; 3 in the leader's transaction, update the copy in the worker's topic and confirm the change in the config
topic. A request that fails on the way can be repeated.
"""

from collections.abc import Sequence

from ringfence.engine.leader import command_plans
from ringfence.engine.leader.command_plans import Plan
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, FencingError, Invalid, UnknownOutcome
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.alteration import Records
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset, SourceOffsets, encode_value
from ringfence.fencing.share.manual_alteration import expand
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.requests.refusal import Refusal

Changes = Sequence[tuple[Partition, Offset | None]]


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
            return command_plans.alter_offsets(self._name, changes, self._source_offsets, self._stores.effective.name)
        if changes:
            self._write(changes)
        return command_plans.alter_offsets(self._name, changes, worker, self._stores.worker.name)

    def _write(self, changes: Changes) -> None:
        def decide(state: ConnectorState, offsets: SourceOffsets) -> Records:
            if state.config_offset != self._connector.config_offset:
                raise Conflict(command_plans.CHANGED)
            command_plans.require_movable(state)
            return [(offsets.key_of(partition), encode_value(offset)) for partition, offset in changes]

        command_plans.require_movable(self._connector)
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
