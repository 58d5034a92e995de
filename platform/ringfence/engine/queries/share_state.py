"""Shows the stored state of a share group's records: a strip for each partition, and a timeline.

Everything is limited: partitions, records of the state topic, steps, and ranges in a strip. `cut` and `whole` show what
was left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ringfence.engine.queries import share_groups
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.share.share_partition.history import Entry, PersistedState, replay
from ringfence.fencing.share.share_partition.state_ranges import Batches, RecordState
from ringfence.fencing.share.share_partition.state_topic import ShareSnapshot, StateKey
from ringfence.fencing.share.state_reader import StateHistory, read_histories
from ringfence.requests.refusal import Refusal
from ringfence.worker_config import WorkerConfig

MOST_PARTITIONS: Final = 20
MOST_ARCHIVED: Final = 500
"""The maximum of partitions in one request for archived records."""
MOST_STEPS: Final = 200
MOST_RANGES: Final = 150
_SECONDS: Final = 4.0


def find_states(
    worker: WorkerConfig, name: str, partitions: Sequence[Mapping[str, Any]], delivery_limit: int, limit: Deadline
) -> list[dict[str, Any]]:
    """Return strip and archived records of these partitions of a group (see `share_groups.describe`)."""
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
    group = share_groups.describe(worker, name, limit)
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
    group = share_groups.describe(worker, name, limit)
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
        return read_histories(share_groups.connection_of(worker), keys, Deadline.after(limit.slice(_SECONDS)))
    except FencingError as error:
        raise share_groups.refuse(error, f"The state of share group {name} cannot be read") from error


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
