"""What the commands of web processes to the leader have in common, and the shapes of their fields and answers.

The commands themselves are in `engine.leader.commands`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NotRequired, TypedDict

from ringfence.requests.request import Answer, Request


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


Json = dict[str, object]
Config = Mapping[str, str]


class OffsetEntry(TypedDict):
    """A source partition and its new offset; None, or a missing offset, deletes it (KIP-875)."""

    partition: Mapping[str, object]
    offset: NotRequired[Mapping[str, object] | None]


class SentCommand(TypedDict):
    """A command as it is sent. body: its fields; request_id: the same if a client library sends it again."""

    kind: str
    connector: str | None
    body: Mapping[str, object]
    user: NotRequired[str]
    request_id: NotRequired[str]


@dataclass(frozen=True)
class Command(Request[Answer]):
    """`health`: it only asks whether there is a leader, and is always handled at once."""

    health: ClassVar[bool] = False

    @property
    def on(self) -> str | None:
        """The connector that it is for."""
        return None

    def body(self) -> dict[str, object]:
        """Its fields without the connector's name."""
        return {name: value for name, value in self.to_wire().items() if name != "connector"}
