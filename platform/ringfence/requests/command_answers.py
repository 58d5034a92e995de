"""The leader's answers to commands: the JSON value of each command that has one."""

from typing import TypedDict

Json = dict[str, object]


class CreationResult(TypedDict, total=False):
    """`changed`: false if the configuration was the same already."""

    created: bool
    changed: bool


class OffsetCheck(TypedDict):
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


class HangingTransactions(TypedDict):
    """As `FindHanging` lists them."""

    ended: list[Json]
