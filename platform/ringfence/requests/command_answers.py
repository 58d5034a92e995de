"""The leader's answers to commands: the JSON value of each command that has one."""

from typing import TypedDict

Json = dict[str, object]


class Created(TypedDict, total=False):
    """`changed`: false if the configuration was the same already."""

    created: bool
    changed: bool


class Checked(TypedDict):
    """Whether the connector itself checked the offsets (KIP-875)."""

    checked: bool


class Connectors(TypedDict):
    connectors: int


class NewLeader(TypedDict):
    leader: str


class NewGeneration(TypedDict):
    generation: int | None


class FencedIds(TypedDict):
    """id, producer_id and epoch each."""

    fenced: list[Json]


class Ended(TypedDict):
    """As `FindHanging` lists them."""

    ended: list[Json]
