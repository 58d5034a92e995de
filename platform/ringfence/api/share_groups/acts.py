"""Actions on a share group, for API, pages and console: preview them in numbers, and carry them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.api import connector_reads, offset_changes, offset_snapshots
from ringfence.api.share_groups.readers import Readers
from ringfence.audit.trail import note, record_change
from ringfence.connectors.sdk.names import list_first
from ringfence.engine.leader.commands import ActOnShareGroup
from ringfence.engine.leader.commands.offsets import Act, Done, Move, Setting
from ringfence.engine.questions import DescribeShareGroup
from ringfence.fencing.offsets.ledger_keys import InputPartition, parse_partition
from ringfence.fencing.share.group_moves import PartitionMove
from ringfence.fencing.share.ledger import State, decode_state
from ringfence.projection.models import Connector

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """One partition's move with its numbers. sure: whether its leader knows of it (true before it is done)."""

    move: PartitionMove
    again: int
    skipped: int
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The effect of an action, in advance or afterwards. refusal: why it is not possible now, "" if it is."""

    connectors: Sequence[str]
    members: Sequence[Mapping[str, Any]]
    moves: Sequence[MoveCounts]
    refusal: str = ""

    @property
    def again(self) -> int:
        return sum(one.again for one in self.moves)

    @property
    def skipped(self) -> int:
        return sum(one.skipped for one in self.moves)


def ledger_of(connectors: Sequence[str]) -> dict[InputPartition, State]:
    """Return the merged ledgers of the connectors; {} for a group without a connector."""
    ledger: dict[InputPartition, State] = {}
    for name in connectors:
        for one in connector_reads.offsets(name)["offsets"]:
            key = parse_partition(one["partition"])
            if key is not None and one["offset"] is not None:
                ledger[key[0]] = decode_state(one["offset"])
    return ledger


def foresee(readers: Readers, group: str, act: Move) -> Foreseen:
    """Return the effect of an action, without changing anything. Raises `Refusal`."""
    answer = dispatch.ask(DescribeShareGroup(group, act))
    connectors = readers.of(group)
    moves = _count([PartitionMove(**each) for each in answer["moves"]], connectors)
    refusal = _refusal(group, connectors, answer["members"])
    return Foreseen(connectors, answer["members"], moves, refusal)


def _count(moves: Sequence[PartitionMove], connectors: Sequence[str]) -> list[MoveCounts]:
    ledger = ledger_of(connectors)

    def state(move: PartitionMove) -> State | None:
        if not connectors:
            return None
        return ledger.get(InputPartition(move.topic_id, move.partition), State(move.topic, move.first))

    return [MoveCounts(move, *move.count(state(move))) for move in moves]


def _refusal(group: str, connectors: Sequence[str], members: Sequence[Mapping[str, Any]]) -> str:
    if len(connectors) > 1:
        return f"The connectors {', '.join(connectors)} read this group, which is for one: give each its own."
    for row in Connector.objects.filter(name__in=connectors, known=True):
        if not offset_changes.movable(row):
            return f"Connector {row.name} must be STOPPED, and its last tasks fenced. Stop it first."
    if members:
        clients = list_first([f"{each['client']} ({each['host']})" for each in members], _MOST_NAMED)
        stop = "Stop the connector" if connectors else "Stop them"
        count = len(members)
        are = f"1 member is in share group {group}" if count == 1 else f"{count} members are in share group {group}"
        return f"{are}: {clients}. {stop} first; a member that died counts until its session expires."
    return ""


def carry_out(request: HttpRequest, readers: Readers, group: str, act: Move, reason: str) -> Foreseen:
    """Take a snapshot of the connector's offsets, then send the leader's command. Raises `Refusal`."""
    who, connectors = principal_of(request).name, readers.of(group)
    before = ledger_of(connectors)
    for name in connectors:
        offset_snapshots.snapshot_before_change(name, who, f"before share group {group} was moved")
    done = _command(request, readers, group, act, reason)
    unsure = {(each["topic"], each["partition"]) for each in done["unsure"]}
    moves = []
    for each in done["moves"]:
        move = PartitionMove(**each)
        state = before.get(InputPartition(move.topic_id, move.partition), State(move.topic, move.first))
        again, skipped = move.count(state if connectors else None)
        moves.append(MoveCounts(move, again, skipped, (move.topic, move.partition) not in unsure))
    foreseen = Foreseen(connectors, (), moves)
    note(request, f"{reason}. Share group {group}, {act['kind']}: {foreseen.again} again, {foreseen.skipped} skipped")
    if not connectors:
        moved = {f"{one.move.topic}-{one.move.partition}": one.move for one in moves}
        record_change(
            request,
            before={"share group": group, "starts": {name: move.start for name, move in moved.items()}},
            after={
                "share group": group,
                "starts": {name: None if move.forgets else move.to for name, move in moved.items()},
            },
        )
    return foreseen


def configure(
    request: HttpRequest, readers: Readers, group: str, settings: Mapping[str, str | None], reason: str
) -> Sequence[Setting]:
    """Set the group's own settings, None for the broker's. Returns all settings afterwards. Raises `Refusal`."""
    before = dispatch.ask(DescribeShareGroup(group))["settings"]
    after = _command(request, readers, group, {"kind": "configure", "settings": dict(settings)}, reason)["settings"]
    note(request, f"{reason}. Share group {group}: {', '.join(sorted(settings))}")
    record_change(request, before=_own(before), after=_own(after))
    return after


def _own(settings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in settings if each["own"]}


def _command(request: HttpRequest, readers: Readers, group: str, act: Act, reason: str) -> Done:
    connectors = list(readers.of(group))
    connector = connectors[0] if connectors else None
    command = ActOnShareGroup(group, act, connectors, reason, connector)
    return dispatch.command(command, user=principal_of(request).name).value
