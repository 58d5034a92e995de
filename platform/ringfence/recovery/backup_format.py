"""A copy of the cluster's state in Kafka: configurations, target states, source offsets. It is stored as JSON.

docs/backup.md documents it. A copy contains the configurations as they are in the config topic, including secrets.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence.fencing.errors import Invalid
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_grants import Groups

FORMAT: Final = "ringfence-backup"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ConnectorCopy:
    """One connector.

    tasks: how many transactional ids its newest generations may have had. target: where they wrote
    (`fencing.leader.fence_targets`). topics, saved_by: the topic grant of its last editor
    (`fencing.topics.topic_grants`).
    """

    config: Mapping[str, str] = field(repr=False)
    state: TargetState = TargetState.RUNNING
    tasks: int = 0
    target: Mapping[str, str] = field(default_factory=dict, repr=False)
    topics: Groups = ()
    saved_by: str = ""


@dataclass(frozen=True, slots=True)
class OffsetCopy:
    """A source partition's newest committed offset in the worker's offsets topic."""

    connector: str
    partition: Mapping[str, object]
    offset: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Copy:
    """made_ms: wall clock. source: where it comes from, for messages."""

    group_id: str
    made_ms: int
    source: str
    connectors: Mapping[str, ConnectorCopy]
    offsets: Sequence[OffsetCopy]
    cluster_id: str = ""
    topics: Mapping[str, Any] = field(default_factory=dict)

    def dumps(self) -> str:
        """Do the inverse of `loads`."""
        return json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "made_ms": self.made_ms,
                "source": self.source,
                "group_id": self.group_id,
                "kafka_cluster_id": self.cluster_id,
                "topics": self.topics,
                "connectors": {
                    name: {
                        "config": dict(one.config),
                        "state": one.state.name,
                        "tasks": one.tasks,
                        "target": dict(one.target),
                        "topics": [list(group) for group in one.topics],
                        "saved_by": one.saved_by,
                    }
                    for name, one in sorted(self.connectors.items())
                },
                "offsets": [
                    {"connector": one.connector, "partition": one.partition, "offset": one.offset}
                    for one in self.offsets
                ],
            },
            ensure_ascii=False,
            indent=1,
        )


def loads(text: str) -> Copy:
    """Parse a copy. Raises `Invalid`, with the error."""
    try:
        read = json.loads(text)
        if read["format"] != FORMAT:
            raise ValueError("it is not a backup of Ringfence")
        if read["version"] != VERSION:
            raise ValueError(f"its version is {read['version']}, but this Ringfence reads version {VERSION}")
        return Copy(
            _text(read["group_id"]),
            int(read["made_ms"]),
            _text(read["source"]),
            {_text(name): _connector(one) for name, one in read["connectors"].items()},
            [_offset(one) for one in read["offsets"]],
            _text(read["kafka_cluster_id"]),
            dict(read["topics"]),
        )
    except KeyError as error:
        raise Invalid(f"The backup cannot be read: {error} is missing in it") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid(f"The backup cannot be read: {error}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string is expected, not {type(value).__name__}")
    return value


def _strings(value: Mapping[str, object]) -> dict[str, str]:
    return {_text(key): _text(item) for key, item in value.items()}


def _connector(value: Mapping[str, Any]) -> ConnectorCopy:
    if value["state"] not in TargetState.__members__:
        raise ValueError(f"{value['state']!r} is not a connector state")
    topics = tuple(tuple(_text(pattern) for pattern in group) for group in value["topics"])
    state, tasks = TargetState[value["state"]], int(value["tasks"])
    config, target = _strings(value["config"]), _strings(value["target"])
    return ConnectorCopy(config, state, tasks, target, topics, _text(value["saved_by"]))


def _offset(value: Mapping[str, Any]) -> OffsetCopy:
    if not isinstance(value["partition"], dict) or not isinstance(value["offset"], dict):
        raise TypeError("a source partition and a source offset must be objects")
    return OffsetCopy(_text(value["connector"]), value["partition"], value["offset"])
