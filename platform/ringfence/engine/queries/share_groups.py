"""Describes the cluster's share groups on a worker: the list, one group, and the effect of moving one.

The stored state of a group's records is shown as a strip for each partition, and a timeline. Everything is limited:
partitions, records of the state topic, steps, and ranges in a strip. `cut` and `whole` show what was left out.

The state of share-partitions is read from `__share_group_state`: only the newest records, without side effects. Java's
hash of `group:topic id:partition` decides the partition of the topic, and with it the coordinator.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence.engine.leader.commands.offsets import Move, MovedPartition
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, Fatal, FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, PartitionReader
from ringfence.fencing.kafka.consumer_groups import NotThere
from ringfence.fencing.kafka.share_groups import (
    ShareGroup,
    ShareGroupAdmin,
    ShareStart,
    share_group_admin,
)
from ringfence.fencing.kafka.topic_admin import topic_exists, topic_identity
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at, offsets_since
from ringfence.fencing.share.group_moves import UNKNOWN, PartitionMove, RequestedStart
from ringfence.fencing.share.share_partition.state_machine import Batches, RecordState
from ringfence.fencing.share.share_partition.state_topic import (
    STATE_TOPIC,
    Entry,
    PersistedState,
    ShareSnapshot,
    StateKey,
    read,
    replay,
)
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

MOST: Final = 10_000
"""The maximum of records that are read from each partition of the topic, the newest ones."""

_AT_ONCE = 1000


@dataclass(slots=True)
class StateHistory:
    """A share-partition's records in order. whole: its newest snapshot is among them, so the state is known."""

    entries: list[Entry] = field(default_factory=list)
    whole: bool = False


def place_of(key: StateKey, partitions: int) -> int:
    """Return the partition of the topic that has this share-partition's records."""
    text = f"{key.group_id}:{key.topic_id}:{key.partition}".encode("utf-16-be")
    number = 0
    for at in range(0, len(text), 2):
        number = (31 * number + (text[at] << 8 | text[at + 1])) & 0xFFFFFFFF
    hash_code = number - 0x1_0000_0000 if number & 0x8000_0000 else number
    return 0 if hash_code == -0x8000_0000 else abs(hash_code) % partitions


def read_histories(connection: Connection, keys: Collection[StateKey], limit: Deadline) -> dict[StateKey, StateHistory]:
    """Return the histories, up to the current end or the deadline. Raises `FencingError`; ValueError for an unknown
    format.
    """
    histories = {key: StateHistory() for key in keys}
    if not keys or not topic_exists(connection, STATE_TOPIC, limit):
        return histories
    _, partitions = topic_identity(connection, STATE_TOPIC, limit)
    places = sorted({place_of(key, len(partitions)) for key in keys})
    first = offsets_at(connection, STATE_TOPIC, places, OffsetKind.FIRST, limit)
    ends = offsets_at(connection, STATE_TOPIC, places, OffsetKind.END, limit)
    starts = {each: max(first[each], ends[each] - MOST) for each in places if ends[each] > first[each]}
    if not starts:
        return histories
    reader = PartitionReader(connection, STATE_TOPIC, starts, isolation=Isolation.UNCOMMITTED, fetch_wait_ms=50)
    try:
        while not limit.expired and any(reader.positions[each] < ends[each] for each in starts):
            for record in reader.poll(limit.slice(0.2), _AT_ONCE):
                entry = read(record.offset, record.timestamp_ms, record.key, record.value)
                if entry is not None and entry.key in histories:
                    history = histories[entry.key]
                    history.entries.append(entry)
                    history.whole = history.whole or isinstance(entry.record, ShareSnapshot)
    finally:
        reader.close()
    return histories


MOST_ASKED: Final = 200
"""The maximum of groups in a list with offsets, which take one request for each group."""

_LEAST_TO_ASK_SECONDS: Final = 1.0
_LATEST: Final = "latest"


def connection_of(worker: WorkerConfig) -> Connection:
    """Return the connection to the worker's cluster, with the worker's credentials."""
    return worker.connection("ringfence-share-groups")


def refuse(error: FencingError, doing: str) -> Refusal:
    """Return the refusal for an error of the brokers."""
    if isinstance(error, NotThere):
        return Refusal(404, f"{error}. GET /api/v1/share-groups lists those that are there")
    if isinstance(error, Conflict):
        return Refusal(409, f"{error} A client has just joined it: nothing was changed", retry=True)
    if isinstance(error, Fatal):
        return Refusal(500, f"{doing}: {error}")
    return Refusal(503, f"{doing}: {error}", retry=True)


def list_all(worker: WorkerConfig, limit: Deadline) -> dict[str, Any]:
    """Return `worker_group`, the cluster's `group.id` (the prefix of connectors' groups), and `groups` by name.

    The first `MOST_ASKED` groups have lag and partitions; for the others these are null.
    """
    try:
        with share_group_admin(connection_of(worker)) as admin:
            states = admin.names()
            names = sorted(states)
            details = admin.describe(names)
            page = names[:MOST_ASKED] if limit.remaining > _LEAST_TO_ASK_SECONDS else []
            starts = admin.starts(page)
    except FencingError as error:
        raise refuse(error, "The share groups cannot be listed") from error
    groups = [_summary(name, states[name], details.get(name), starts.get(name)) for name in names]
    return {"worker_group": worker.group_id, "groups": groups}


def _summary(name: str, state: str, group: ShareGroup | None, starts: Sequence[ShareStart] | None) -> dict[str, Any]:
    members = group.members if group else ()
    topics = {topic for member in members for topic in member.topics} | {one.topic for one in starts or ()}
    lags = [one.lag for one in starts or () if one.lag >= 0]
    return {
        "group": name,
        "state": group.state if group else state,
        "members": len(members),
        "topics": sorted(topics),
        "partitions": None if starts is None else len(starts),
        "lag": sum(lags) if lags else None,
        "problem": next((one.problem for one in starts or () if one.problem), ""),
    }


def describe(worker: WorkerConfig, name: str, limit: Deadline) -> dict[str, Any]:
    """Return one group: members, its start in each partition, the partitions' offsets, and its settings."""
    connection = connection_of(worker)
    try:
        with share_group_admin(connection) as admin:
            group = _existing(admin, name)
            starts = admin.starts([name]).get(name, [])
            settings = admin.settings(name)
        edges = _edges(connection, {one.topic for one in starts}, limit)
    except FencingError as error:
        raise refuse(error, f"Share group {name} cannot be described") from error
    return {
        "worker_group": worker.group_id,
        "group": group.name,
        "state": group.state,
        "epoch": group.epoch,
        "members": members_as_json(group),
        "partitions": [
            _partition(one, edges.get((one.topic, one.partition)))
            for one in sorted(starts, key=lambda one: (one.topic, one.partition))
        ],
        "settings": [{"name": each.name, "value": each.value, "own": each.own} for each in settings],
    }


def _existing(admin: ShareGroupAdmin, name: str) -> ShareGroup:
    group = admin.describe([name]).get(name)
    if group is None:
        raise NotThere(f"There is no share group {name}")
    return group


def members_as_json(group: ShareGroup) -> list[dict[str, Any]]:
    return [
        {
            "member": each.member_id,
            "client": each.client_id,
            "host": each.host,
            "epoch": each.epoch,
            "topics": list(each.topics),
            "assigned": [{"topic": topic, "partition": number} for topic, number in each.partitions],
        }
        for each in group.members
    ]


Edges = dict[tuple[str, int], tuple[str, int, int, int]]
"""By topic and partition: the topic's id in the ledger's form, first offset, last stable offset, end."""


def _edges(connection: Connection, topics: Collection[str], limit: Deadline) -> Edges:
    """Return the edges of the partitions of those topics that exist."""
    edges: Edges = {}
    for topic in sorted(topics):
        if not topic_exists(connection, topic, limit):
            continue
        topic_id, partitions = topic_identity(connection, topic, limit)
        first, stable, end = (
            offsets_at(connection, topic, partitions, place, limit)
            for place in (OffsetKind.FIRST, OffsetKind.STABLE, OffsetKind.END)
        )
        edges |= {(topic, each): (topic_id, first[each], stable[each], end[each]) for each in partitions}
    return edges


def _partition(one: ShareStart, edges: tuple[str, int, int, int] | None) -> dict[str, Any]:
    topic_id, first, stable, end = edges or ("", UNKNOWN, UNKNOWN, UNKNOWN)
    row = {"topic": one.topic, "topic_id": topic_id, "partition": one.partition, "start": one.offset}
    return {**row, "lag": one.lag, "first": first, "stable": stable, "end": end, "problem": one.problem}


def foresee(worker: WorkerConfig, name: str, act: Move, limit: Deadline) -> dict[str, Any]:
    """Return what an act on a group would do: `members` that prevent it, and `moves`. Changes nothing."""
    connection = connection_of(worker)
    try:
        with share_group_admin(connection) as admin:
            group = _existing(admin, name)
            moves = find_moves(admin, connection, name, act, limit)
    except FencingError as error:
        raise refuse(error, f"The effect on share group {name} cannot be determined") from error
    return {"worker_group": worker.group_id, "members": members_as_json(group), "moves": [as_json(m) for m in moves]}


def find_moves(
    admin: ShareGroupAdmin, connection: Connection, name: str, act: Move, limit: Deadline
) -> list[PartitionMove]:
    """Return the moves. Raises `Refusal` if a topic or partition does not exist, and `FencingError`."""
    starts = {(one.topic, one.partition): one.offset for one in admin.starts([name]).get(name, [])}
    topic_names = None if act["kind"] == "delete" else act["topics"]
    topics = {topic for topic, _ in starts} if topic_names is None else set(topic_names)
    edges = _edges(connection, topics, limit)
    if missing := sorted(topics - {topic for topic, _ in edges}) if topic_names is not None else []:
        raise Refusal(404, f"There is no topic {', '.join(missing)}. Name a topic that the group reads")
    if act["kind"] != "alter":
        if unread := sorted(topics - {topic for topic, _ in starts}):
            raise Refusal(404, f"Share group {name} has no offsets in topic {', '.join(unread)}")
        settings = {each.name: each.value for each in admin.settings(name)}
        wish = RequestedStart("latest" if settings.get("share.auto.offset.reset", _LATEST) == _LATEST else "earliest")
        places = sorted(place for place in edges if place in starts)
    else:
        wish = RequestedStart.parse(act["to"])
        numbers = act.get("partitions")
        places = sorted(place for place in edges if numbers is None or place[1] in numbers)
        if not places:
            raise Refusal(404, f"Share group {name} has none of these partitions: nothing was changed")
    since: dict[tuple[str, int], int] = {}
    if wish.time_ms != UNKNOWN:
        for topic in {topic for topic, _ in places}:
            numbers = [number for one, number in places if one == topic]
            offsets = offsets_since(connection, topic, numbers, wish.time_ms, limit)
            since |= {(topic, number): offset for number, offset in offsets.items()}
    moves = []
    for place in places:
        topic_id, first, _, end = edges[place]
        to = wish.find(first, end, since.get(place, UNKNOWN))
        start = starts.get(place, UNKNOWN)
        forgets = act["kind"] != "alter"
        moves.append(PartitionMove(*place_and_id(place, topic_id), first, end, start, to, forgets))
    return moves


def place_and_id(place: tuple[str, int], topic_id: str) -> tuple[str, str, int]:
    return place[0], topic_id, place[1]


def as_json(move: PartitionMove) -> MovedPartition:
    return {
        "topic": move.topic,
        "topic_id": move.topic_id,
        "partition": move.partition,
        "first": move.first,
        "end": move.end,
        "start": move.start,
        "to": move.to,
        "forgets": move.forgets,
    }


MOST_PARTITIONS: Final = 20
MOST_ARCHIVED: Final = 500
"""The maximum of partitions in one request for archived records."""
MOST_STEPS: Final = 200
MOST_RANGES: Final = 150
_SECONDS: Final = 4.0


def find_states(
    worker: WorkerConfig, name: str, partitions: Sequence[Mapping[str, Any]], delivery_limit: int, limit: Deadline
) -> list[dict[str, Any]]:
    """Return strip and archived records of these partitions of a group (see `describe`)."""
    rows = [each for each in partitions if each["topic_id"]]
    keys = {_key(name, each): each for each in rows}
    histories = _read(worker, name, list(keys), limit)
    return [
        {
            "topic": each["topic"],
            "partition": each["partition"],
            "whole": histories[key].whole,
            **_state(_last(histories[key].entries), delivery_limit),
        }
        for key, each in keys.items()
    ]


def find_archived(worker: WorkerConfig, name: str, limit: Deadline) -> dict[str, Any]:
    """Return which offsets of each partition the group no longer delivers, processed or not: all before `start`, and
    the ranges in `archived`, which have reached the delivery limit. `left_out`: the partitions that are not included.
    """
    group = describe(worker, name, limit)
    often = delivery_limit_of({each["name"]: each["value"] for each in group["settings"]})
    partitions = [each for each in group["partitions"] if each["topic_id"] and each["start"] >= 0]
    page = partitions[:MOST_ARCHIVED]
    histories = _read(worker, name, [_key(name, each) for each in page], limit)
    places = []
    for each in page:
        state = _last(histories[_key(name, each)].entries)
        batches = () if state is None else state.find_archived(often)
        place = {key: each[key] for key in ("topic", "topic_id", "partition", "start", "stable")}
        places.append({**place, "archived": [[one.first, one.last] for one in batches[:MOST_RANGES]]})
    return {"worker_group": worker.group_id, "places": places, "left_out": len(partitions) - len(page)}


def find_timeline(worker: WorkerConfig, name: str, topic: str, partition: int, limit: Deadline) -> dict[str, Any]:
    """Return the newest steps of one share-partition, oldest first, each with the state after it."""
    group = describe(worker, name, limit)
    matches = [each for each in group["partitions"] if (each["topic"], each["partition"]) == (topic, partition)]
    if not matches or not matches[0]["topic_id"]:
        raise Refusal(404, f"Share group {name} does not read {topic}-{partition}")
    key = _key(name, matches[0])
    history = _read(worker, name, [key], limit)[key]
    settings = {each["name"]: each["value"] for each in group["settings"]}
    archived_after = delivery_limit_of(settings)
    steps = [
        {
            "offset": entry.offset,
            "time_ms": entry.timestamp_ms,
            "kind": "deleted" if entry.record is None else _kind(entry),
            "changed": _ranges(entry.batches),
            **_state(state, archived_after),
        }
        for entry, state in replay(history.entries)
    ]
    return {
        "worker_group": worker.group_id,
        "topic": topic,
        "partition": partition,
        "end": matches[0]["end"],
        "whole": history.whole,
        "left_out": max(0, len(steps) - MOST_STEPS),
        "steps": steps[-MOST_STEPS:],
    }


def delivery_limit_of(settings: Mapping[str, str]) -> int:
    """Return the number of deliveries after which the broker archives a record of the group."""
    text = settings.get("share.delivery.count.limit", "")
    return int(text) if text.isdecimal() else 5


def _key(name: str, partition: Mapping[str, Any]) -> StateKey:
    """Return the key of a partition's state. confluent-kafka has topic ids in standard base64, Kafka in base64url."""
    return StateKey(name, partition["topic_id"].replace("/", "_").replace("+", "-"), partition["partition"])


def _read(worker: WorkerConfig, name: str, keys: Sequence[StateKey], limit: Deadline) -> dict[StateKey, StateHistory]:
    try:
        return read_histories(connection_of(worker), keys, Deadline.after(limit.slice(_SECONDS)))
    except FencingError as error:
        raise refuse(error, f"The state of share group {name} cannot be read") from error


def _last(entries: Sequence[Entry]) -> PersistedState | None:
    state: PersistedState | None = None
    for _, state in replay(entries):  # noqa: B007 - only the last one is used
        pass
    return state


def _kind(entry: Entry) -> str:
    return "snapshot" if isinstance(entry.record, ShareSnapshot) else "update"


def _state(state: PersistedState | None, delivery_limit: int) -> dict[str, Any]:
    """Return the state as JSON. `start`, `end`: the stored SPSO and SPEO; `cut`: how many ranges `strip` lacks."""
    if state is None:
        return {"start": -1, "end": -1, "strip": [], "archived": [], "cut": 0, "complete": -1}
    strip = state.strip() if state.start_offset >= 0 else ()
    batches = state.find_archived(delivery_limit)
    return {
        "start": state.start_offset,
        "end": state.end_offset,
        "strip": _ranges(strip),
        "archived": _ranges(batches),
        "cut": max(0, len(strip) - MOST_RANGES),
        "complete": state.delivery_complete_count,
    }


def _ranges(batches: Batches) -> list[list[Any]]:
    """Return first offset, last offset, state and delivery count of each range, for the first `MOST_RANGES`."""
    return [
        [one.first, one.last, RecordState(one.state).name.lower(), one.delivery_count] for one in batches[:MOST_RANGES]
    ]
