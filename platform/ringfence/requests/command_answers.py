"""The leader's answers to commands: the JSON value of each command that has one."""

from typing import TypedDict

from ringfence.requests.question import Json as Validated

Json = dict[str, object]


class InvalidConfig(TypedDict):
    """errors: one text for each, which may quote values of secret settings; count: as the plugin counts them."""

    errors: list[str]
    count: int


class CreationResult(TypedDict, total=False):
    """changed: false if the configuration was the same already; tasks: how many tasks the connector has now; secrets:
    the settings that its plugin declares as secret; invalid: why nothing was saved.
    """

    created: bool
    changed: bool
    tasks: int
    secrets: list[str]
    invalid: InvalidConfig


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


def validation_result(validation: Validated) -> CreationResult:
    """Return what whoever saves a configuration needs of Kafka Connect's validation object."""
    entries = validation.get("configs", [])
    keys = (entry["definition"] for entry in entries)
    result: CreationResult = {"secrets": [str(key["name"]) for key in keys if key.get("type") == "PASSWORD"]}
    if count := int(validation.get("error_count") or 0):
        errors = [str(error) for entry in entries for error in entry["value"].get("errors", [])]
        result["invalid"] = {"errors": errors, "count": count}
    return result
