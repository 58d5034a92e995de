"""Changes a share group for a user: moves it, deletes offsets, deletes the group, or changes its settings.

A group with members is refused. A group that a connector reads is moved together with the connector's ledger:

1. The connector must be STOPPED, and its fencing round over.
2. The group must have no members.
3. The ledger is written, like any change of source offsets.
4. The group is altered.
5. The leaders of its partitions are made to forget its old position (`fencing.share.partition_claims`), for any group.
   The flush needs a member, which starts the group again, so deleted offsets are deleted once more.

A group is deleted last, after its offsets and the flush. A new group of that name counts its epochs from the beginning,
so the leaders would use their old state for it (measured with Kafka 4.3), and no flush would help. A failure after step
3 loses nothing, since only the ledger decides which records are done.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from ringfence.connectors.sdk.kafka_settings import share_group
from ringfence.connectors.sdk.kafka_settings.java_names import servers
from ringfence.connectors.sdk.names import list_first
from ringfence.engine.leader.commands.offsets import (
    ActOnShareGroup,
    Changes,
    ConfigureShareGroup,
    DeleteShareGroupOffsets,
    Done,
    Move,
    Setting,
    require_movable,
)
from ringfence.engine.queries import share_groups
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, FencingError
from ringfence.fencing.kafka.consumer_groups import NotThere
from ringfence.fencing.kafka.share_groups import (
    PREFIX,
    GroupSetting,
    ShareGroupAdmin,
    ShareGroupMember,
    alter_share_group,
    share_group_admin,
)
from ringfence.fencing.offsets.ledger_keys import InputPartition, parse_partition, partition_key
from ringfence.fencing.offsets.source_offsets import SourceOffset
from ringfence.fencing.share.group_moves import PartitionMove
from ringfence.fencing.share.ledger import TOPIC, State, encode_state
from ringfence.fencing.share.partition_claims import PartitionBounds, reset_leader_positions
from ringfence.fencing.share.settings import ShareSettings
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

WriteLedger = Callable[[ConnectorState, Callable[[list[SourceOffset]], Changes]], object]
"""Calls the function with the connector's current source offsets, and carries out the changes that it returns."""

_MOST_NAMED = 10
_FLUSH_S = 30.0
_LEAVE_S = 10.0
_PAUSE_S = 0.2
_FOLLOW_S = 5.0


def owners(state: ClusterState, group: str, worker: WorkerConfig) -> list[ConnectorState]:
    """Return the connectors that read this group, or would if they ran."""
    return [
        connector
        for connector in state.existing()
        if share_group.group_of(worker.group_id, connector.name, (connector.config or {}).get(share_group.GROUP))
        == group
    ]


def describe_members(members: Sequence[ShareGroupMember]) -> str:
    """Describe the members in a refusal."""
    return list_first([f"{each.client_id} ({each.host})" for each in members], _MOST_NAMED)


class ShareGroupAct:
    """One change of one group. The methods raise `Refusal`."""

    def __init__(self, state: ClusterState, request: ActOnShareGroup, worker: WorkerConfig, limit: Deadline) -> None:
        self._group = request.group
        self._act = request.act
        self._worker = worker
        self._limit = limit
        self._connection = share_groups.connection_of(worker)
        self._owners = owners(state, self._group, worker)
        if sorted(each.name for each in self._owners) != sorted(request.owners):
            raise Refusal(
                409,
                f"The connectors that read share group {self._group} have just changed: nothing was done",
                retry=True,
            )
        if len(self._owners) > 1:
            names = ", ".join(each.name for each in self._owners)
            raise Refusal(
                409,
                f"The connectors {names} read share group {self._group}, which is for one: nothing was done. Give each "
                f"its own by {share_group.GROUP}",
            )

    def run(self, write_ledger: WriteLedger) -> Done:
        try:
            with share_group_admin(self._connection) as admin:
                if self._act["kind"] == "configure":
                    return self._configure(admin, self._act)
                return self._move(admin, self._act, write_ledger)
        except FencingError as error:
            raise share_groups.refuse(error, f"Share group {self._group} could not be changed") from error

    def _configure(self, admin: ShareGroupAdmin, act: ConfigureShareGroup) -> Done:
        names = {each.name.removeprefix(PREFIX) for each in admin.settings(self._group)}
        short = {name.removeprefix(PREFIX): value for name, value in act["settings"].items()}
        if unknown := sorted(set(short) - names):
            raise Refusal(400, f"Unknown setting {', '.join(unknown)}: use some of {', '.join(sorted(names))}")
        for owner in self._owners:
            if conflicts := sorted(set(short) & set(ShareSettings().of_group)):
                raise Refusal(
                    409,
                    f"Connector {owner.name} sets {', '.join(conflicts)} itself whenever a task starts: nothing was "
                    "changed. Change its share.* settings",
                )
        alter_share_group(self._connection, self._group, short, self._limit)
        after = self._read_changed(admin, short)
        return {"settings": [Setting(name=each.name, value=each.value, own=each.own) for each in after]}

    def _read_changed(self, admin: ShareGroupAdmin, changes: Mapping[str, str | None]) -> Sequence[GroupSetting]:
        """Return the settings, as soon as the broker that answers has the changes: it follows the controller."""
        limit = Deadline.after(self._limit.slice(_FOLLOW_S))
        while True:
            settings = admin.settings(self._group)
            values = {each.name.removeprefix(PREFIX): each.value if each.own else None for each in settings}
            if limit.expired or all(values.get(name) == value for name, value in changes.items()):
                return settings
            time.sleep(_PAUSE_S)

    def _move(self, admin: ShareGroupAdmin, act: Move, write_ledger: WriteLedger) -> Done:
        for owner in self._owners:
            self._require_here(owner)
            require_movable(owner)
        self._require_empty(admin)
        moves = share_groups.find_moves(admin, self._connection, self._group, act, self._limit)
        for owner in self._owners:
            write_ledger(owner, lambda offsets: self._changes(act, moves, offsets))
        try:
            self._alter(admin, act, moves)
        except FencingError as error:
            if not self._owners:
                raise
            raise Refusal(
                500,
                f"The offsets of connector {self._owners[0].name} are changed, share group {self._group} is not: "
                f"{error}. Nothing is lost, the sweep reads what the group does not deliver. Repeat the request",
            ) from error
        unsure = self._reset_leaders(moves) if moves else []
        if act["kind"] == "delete_offsets":
            self._forget_again(admin, act)
        elif act["kind"] == "delete":
            self._delete(admin, offsets=bool(moves))
        done = [share_groups.as_json(move) for move in moves]
        return {"moves": done, "unsure": [{"topic": topic, "partition": number} for topic, number in unsure]}

    def _require_here(self, owner: ConnectorState) -> None:
        bootstrap = (owner.config or {}).get(share_group.SOURCE_SERVERS, "").strip()
        if bootstrap and not set(servers(bootstrap)) & set(servers(self._connection.bootstrap)):
            raise Refusal(
                409,
                f"Connector {owner.name} reads from {bootstrap}, and this cluster's Kafka is "
                f"{self._connection.bootstrap}: nothing was changed. Move its offsets on its Offsets tab; the share "
                "group needs no change",
            )

    def _require_empty(self, admin: ShareGroupAdmin) -> None:
        group = admin.describe([self._group]).get(self._group)
        if group is None:
            raise NotThere(f"There is no share group {self._group}")
        if group.members:
            what = f"connector {self._owners[0].name}" if self._owners else "them"
            raise Refusal(
                409,
                f"{len(group.members)} members are in share group {self._group}: {describe_members(group.members)}. "
                f"Nothing was changed. Stop {what} and repeat the request; a member that died counts until its session "
                "runs out",
                retry=True,
            )

    def _changes(self, act: Move, moves: Sequence[PartitionMove], offsets: Sequence[SourceOffset]) -> Changes:
        """Return the changes of the ledger. A partition without an offset starts as the connector's settings say."""
        if act["kind"] == "alter":
            return [
                (partition_key(InputPartition(move.topic_id, move.partition)), encode_state(State(move.topic, move.to)))
                for move in moves
            ]
        topics = {move.topic for move in moves}
        partitions: dict[InputPartition, None] = {}
        for each in offsets:
            key = parse_partition(each.partition)
            topic = (each.offset or {}).get(TOPIC)
            if key is not None and (act["kind"] == "delete" or topic in topics):
                partitions[key[0]] = None
        return [(partition_key(place), None) for place in partitions]

    def _alter(self, admin: ShareGroupAdmin, act: Move, moves: Sequence[PartitionMove]) -> None:
        try:
            if act["kind"] == "alter":
                admin.alter(self._group, {(move.topic, move.partition): move.to for move in moves})
            elif act["kind"] == "delete_offsets":
                admin.delete_offsets(self._group, act["topics"])
            elif moves:
                admin.delete_offsets(self._group, {move.topic for move in moves})
        except Conflict:
            self._require_empty(admin)  # its error names the members
            raise

    def _forget_again(self, admin: ShareGroupAdmin, act: DeleteShareGroupOffsets) -> None:
        """Delete the offsets again, because the flush was a member and so the group has started again."""
        try:
            admin.delete_offsets(self._group, act["topics"])
        except FencingError as error:
            log.info("%s", error)

    def _delete(self, admin: ShareGroupAdmin, *, offsets: bool) -> None:
        """Delete the group as soon as the flush's member has left. offsets: whether they are deleted already."""
        leaving = Deadline.after(self._limit.slice(_LEAVE_S))
        while True:
            try:
                return admin.delete(self._group)
            except NotThere:
                return None
            except Conflict as error:
                if leaving.expired:
                    raise self._remains(admin, offsets, str(error)) from error
            except FencingError as error:
                raise self._remains(admin, offsets, str(error)) from error
            time.sleep(_PAUSE_S)

    def _remains(self, admin: ShareGroupAdmin, offsets: bool, why: str) -> Refusal:
        try:
            group = admin.describe([self._group]).get(self._group)
        except FencingError:
            group = None
        members = group.members if group is not None else []
        if members:
            count = "1 member has" if len(members) == 1 else f"{len(members)} members have"
            why = f"{count} joined it since: {describe_members(members)}. Stop them"
        done = (
            f"The offsets of share group {self._group} are deleted, the group is not"
            if offsets
            else (f"Share group {self._group} is not deleted")
        )
        return Refusal(409 if members else 500, f"{done}: {why}. Repeat the request", retry=True)

    def _reset_leaders(self, moves: Sequence[PartitionMove]) -> list[tuple[str, int]]:
        bounds = {(move.topic, move.partition): PartitionBounds(move.to, move.end) for move in moves}
        return reset_leader_positions(
            self._connection, self._group, bounds, Deadline.after(self._limit.slice(_FLUSH_S))
        )
