"""A copy of the cluster's state in Kafka: configurations, target states, source offsets. It is stored as JSON.

docs/backup.md documents it. A copy contains the configurations as they are in the config topic, including secrets.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence.fencing.errors import Invalid
from ringfence.fencing.offsets.source_offsets import canonical
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_grants import Groups

FORMAT: Final = "ringfence-backup"
VERSION: Final = 1
_DEPTH: Final = 64
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_MOST_TASKS: Final = 1_000_000
"""Each is an id to fence before the connector starts."""


@dataclass(frozen=True, slots=True)
class ConnectorCopy:
    """One connector.

    tasks: how many transactional ids its newest generations may have had. target: where they wrote
    (`fencing.leader.fence_generation`). topics, saved_by: the topic grant of its last editor
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
    """Parse a copy. Raises `Invalid`, with the error. Nobody vouches for a file: what no backup holds is refused."""
    try:
        read = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
        if not isinstance(read, dict) or read["format"] != FORMAT:
            raise ValueError("it is not a backup of Ringfence")
        if _integer(read["version"], sys.maxsize) != VERSION:
            raise ValueError(f"its version is {read['version']}, but this Ringfence reads version {VERSION}")
        _check_depth(read)
        return Copy(
            _line(read["group_id"]),
            _integer(read["made_ms"], _LAST_MS),
            _line(read["source"]),
            {_line(name): _connector(name, one) for name, one in read["connectors"].items()},
            _offsets(read["offsets"]),
            _line(read["kafka_cluster_id"], empty=True),
            dict(read["topics"]),
        )
    except KeyError as error:
        raise Invalid(f"The backup cannot be read: {error} is missing in it") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid(f"The backup cannot be read: {error}") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the object. Raises ValueError if a name occurs twice: people and programs may see different ones."""
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("an object has the same name twice")
    return names


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _check_depth(value: object) -> None:
    """Raise ValueError for deeper objects than a backup has, which could be read here but not written again."""
    level = [value]
    for _ in range(_DEPTH):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [each for one in inner for each in one]
    if level:
        raise ValueError(f"it is nested more than {_DEPTH} levels deep")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string is expected, not {type(value).__name__}")
    value.encode()  # half a surrogate pair is no text
    return value


def _line(value: object, *, empty: bool = False) -> str:
    """Return a name or another text that is shown: a terminal acts on control characters."""
    text = _text(value)
    if not text.isprintable() or not (text or empty):
        raise ValueError(f"{text[:80]!a} is empty or has control characters")
    return text


def _integer(value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"an integer from 0 to {most} is expected")
    return value


def _strings(value: Mapping[str, object]) -> dict[str, str]:
    return {_text(key): _text(item) for key, item in value.items()}


def _groups(value: object) -> Groups:
    """Return the limits of a grant. A text in place of a list would be read as patterns of one letter."""
    if not isinstance(value, list) or not all(isinstance(group, list) for group in value):
        raise TypeError("the topics of a connector must be a list of lists")
    return tuple(tuple(_text(pattern) for pattern in group) for group in value)


def _connector(name: str, value: Mapping[str, Any]) -> ConnectorCopy:
    if value["state"] not in TargetState.__members__:
        raise ValueError(f"{str(value['state'])[:80]!a} is not a connector state")
    config, target = _strings(value["config"]), _strings(value["target"])
    if config.get("name", name) != name:
        raise ValueError(f"the configuration of {name} has another name")
    state, tasks = TargetState[value["state"]], _integer(value["tasks"], _MOST_TASKS)
    return ConnectorCopy(config, state, tasks, target, _groups(value["topics"]), _text(value["saved_by"]))


def _offsets(values: Sequence[Mapping[str, Any]]) -> list[OffsetCopy]:
    copies = {(one.connector, canonical(one.partition)): one for one in map(_offset, values)}
    if len(copies) != len(values):
        raise ValueError("a source partition has two offsets")
    return list(copies.values())


def _offset(value: Mapping[str, Any]) -> OffsetCopy:
    if not isinstance(value["partition"], dict) or not isinstance(value["offset"], dict):
        raise TypeError("a source partition and a source offset must be objects")
    return OffsetCopy(_line(value["connector"]), value["partition"], value["offset"])
