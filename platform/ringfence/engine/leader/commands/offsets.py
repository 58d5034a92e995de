"""The commands to alter and reset source offsets (KIP-875), to forget the active topics (KIP-558), and to change a
share group.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from ringfence.engine.leader.commands.command import (
    LeaderCommand,
    Offsets,
    OnConnector,
    Outcome,
    Plan,
    Records,
    Report,
    WritingCommand,
    require_existing,
)
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset, SourceOffsets, encode_value
from ringfence.fencing.topics.active_topics import TopicsResetRecord
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.requests.request import Refusal

if TYPE_CHECKING:
    from ringfence.engine.leader.command_service import CommandContext

Changes = Sequence[tuple[Partition, Offset | None]]
"""Source partitions with their new offsets; None deletes one."""


class OffsetEntry(TypedDict):
    """A source partition and its new offset; None, or a missing offset, deletes it (KIP-875)."""

    partition: Mapping[str, object]
    offset: NotRequired[Mapping[str, object] | None]


class OffsetCheck(TypedDict):
    """Whether the connector itself checked the offsets (KIP-875)."""

    checked: bool


def require_movable(connector: ConnectorState) -> None:
    """Raise `Refusal` unless the connector's offsets may be altered now."""
    name = connector.name
    if connector.target is not TargetState.STOPPED or connector.commit is None or connector.commit.tasks:
        raise Refusal(
            400,
            f"Connector {name} must be in the STOPPED state before its offsets can be modified. "
            f"Stop it with PUT /connectors/{name}/stop, then repeat the request",
        )
    if connector.round_pending or connector.tasks_stale:  # its offsets may be on their way to another topic
        raise Refusal(
            409,
            f"The tasks of connector {name} are still being fenced: nothing was changed. Repeat the request",
            passing=True,
        )


def plan_alteration(name: ConnectorName, changes: Changes, offsets: SourceOffsets, topic: str) -> Plan:
    """Alter source offsets (KIP-875). Refused while a task that could commit may be alive."""
    from ringfence.fencing.leader.term import TopicRecord

    def plan(state: ClusterState) -> Records:
        require_movable(require_existing(state, name, f"Connector {name} not found"))
        records = [TopicRecord(topic, offsets.key_of(partition), encode_value(offset)) for partition, offset in changes]
        # Written again: the record in the config topic shows whether the transaction was committed.
        return [*records, TargetStateRecord(name, TargetState.STOPPED)] if records else []

    return plan


class _Altering(OnConnector, WritingCommand[OffsetCheck]):
    def entries(self) -> list[OffsetEntry] | None:
        """Return the new offsets; None for a reset."""
        return None

    def run(self, context: "CommandContext", report: Report) -> Outcome:
        connector = context.leader.state().connector(self.target)
        if connector.config is None:
            raise Refusal(404, f"Connector {self.connector} not found")
        plan, checked = context.plan_offsets(connector, self.entries())
        result = self.write(context, plan, report)
        return Outcome({"checked": checked}, result.offset, ends={"offsets": context.ends_of_offsets()})


@dataclass(frozen=True)
class AlterOffsets(_Altering):
    name = "alter_offsets"
    offsets: Sequence[OffsetEntry]

    def entries(self) -> list[OffsetEntry]:
        return list(self.offsets)


@dataclass(frozen=True)
class ResetOffsets(_Altering):
    """Deletes all offsets."""

    name = "reset_offsets"


@dataclass(frozen=True)
class ResetTopics(OnConnector, WritingCommand[None]):
    """Forget the connector's active topics, and have the tasks report their topics again (KIP-558).

    Nothing is written for a connector that does not exist.
    """

    name = "reset_topics"

    def plan(self, context: "CommandContext") -> Plan:
        if not context.leader.worker_config.flag("topic.tracking.enable"):
            raise Refusal(403, "Topic tracking is disabled.")
        if not context.leader.worker_config.flag("topic.tracking.allow.reset"):
            raise Refusal(403, "Topic tracking reset is disabled.")
        now_ms = context.reporter.now_ms()
        return lambda state: [TopicsResetRecord(self.target, now_ms)] if self.target in state else []

    def after(self, context: "CommandContext") -> Mapping[str, Offsets]:
        ends = context.forget_topics(self.target)
        # Written again: if a task read the first one before the tombstones, they have deleted its report.
        context.write(self.plan(context))
        return {"status": ends}


@dataclass(frozen=True)
class SweepNow(OnConnector, WritingCommand[None]):
    """Have the tasks of a running connector look at offsets of its share group now, instead of when they are due:
    [topic id, partition, first, last] each.
    """

    name = "sweep_now"
    reason: str
    places: Sequence[Sequence[object]]

    def plan(self, context: "CommandContext") -> Plan:
        value = {"places": [list(place) for place in self.places], "time_ms": context.reporter.now_ms()}
        record = SweepRequestRecord.parse("", self.target, value)
        assert record is not None

        def plan(state: ClusterState) -> Records:
            connector = require_existing(state, self.target, f"Connector {self.connector} not found")
            if connector.target is not TargetState.RUNNING:
                raise Refusal(
                    409,
                    f"Connector {self.connector} is not running: nothing was done. Resume it and repeat the request; "
                    "its sweep reads what is not done in any case",
                )
            return [record]

        return plan


class AlterShareGroupOffsets(TypedDict):
    """topics, partitions: None for all of the group; to: as `fencing.share.group_moves.RequestedStart` parses it."""

    kind: Literal["alter"]
    topics: Sequence[str] | None
    partitions: NotRequired[Sequence[int] | None]
    to: str | Mapping[str, int]


class DeleteShareGroupOffsets(TypedDict):
    kind: Literal["delete_offsets"]
    topics: Sequence[str]


class DeleteShareGroup(TypedDict):
    kind: Literal["delete"]


class ConfigureShareGroup(TypedDict):
    """settings: None for the broker's own value."""

    kind: Literal["configure"]
    settings: Mapping[str, str | None]


Move = AlterShareGroupOffsets | DeleteShareGroupOffsets | DeleteShareGroup
"""The acts that change where the group starts."""

Act = Move | ConfigureShareGroup


class Place(TypedDict):
    topic: str
    partition: int


class MovedPartition(TypedDict):
    """The fields of `fencing.share.group_moves.PartitionMove`."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    start: int
    to: int
    forgets: bool


class Setting(TypedDict):
    """own: false for the broker's value."""

    name: str
    value: str
    own: bool


class Done(TypedDict, total=False):
    """moves, unsure: of a move, each partition's, and those whose leader may still deliver records from before;
    settings: all settings of the group after it was configured.
    """

    moves: Sequence[MovedPartition]
    unsure: Sequence[Place]
    settings: Sequence[Setting]


@dataclass(frozen=True)
class ActOnShareGroup(LeaderCommand[Done]):
    """owners: the connectors whose permissions the sender has checked."""

    name = "share_group"
    group: str
    act: Act
    owners: Sequence[str]
    reason: str
    connector: str | None = None

    @property
    def on(self) -> str | None:
        return self.connector

    def note(self) -> str:
        return f"{self.act['kind']} {self.group}: {self.reason}"

    def run(self, context: "CommandContext", report: Report) -> Outcome:
        from ringfence.engine.leader.share_group_acts import ShareGroupAct

        offset, ends = -1, dict[str, Offsets]()

        def write_ledger(connector: ConnectorState, decide: Callable[[list[SourceOffset]], Changes]) -> None:
            nonlocal offset
            offset = context.write(context.plan_ledger(connector, decide)).offset
            ends["offsets"] = context.ends_of_offsets()

        act = ShareGroupAct(context.leader.state(), self, context.leader.worker_config, context.limit)
        value = act.run(write_ledger)
        report(Outcome(note=self.note()))
        return Outcome(value, offset, ends=ends)
