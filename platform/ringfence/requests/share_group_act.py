"""The acts of users on a share group, as they are sent: JSON objects whose `kind` says which one it is."""

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict


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
