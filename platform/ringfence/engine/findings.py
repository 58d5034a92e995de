"""Preflight's findings: from what a probe answered to a check that people can act on. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from connectors.delivery_settings import OFFSETS_STORAGE_TOPIC
from fencing.kafka.probes import Holder, May

_SHOWN: Final = 5


class Result(StrEnum):
    """What a check found."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `key`: the setting it belongs to, if any; `remedy`: what to do where it is not ok."""

    name: str
    result: Result
    message: str
    remedy: str = ""
    key: str = ""

    def as_json(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def timeout(limit: str | None, timeout_ms: int) -> Check:
    name, key = "transaction timeout", "producer.override.transaction.timeout.ms"
    if limit is None:
        text = "The worker's principal may not ask for the broker's transaction.max.timeout.ms."
        return Check(name, Result.UNKNOWN, text, "Grant it DescribeConfigs on the cluster.", key)
    if timeout_ms <= int(limit):
        return Check(name, Result.OK, f"{timeout_ms} ms; the broker allows up to {limit} ms.", key=key)
    text = f"The task needs {timeout_ms} ms (at least three commit intervals); the broker allows {limit} ms."
    remedy = f"Shorten the interval, lower {key}, or raise the broker's transaction.max.timeout.ms."
    return Check(name, Result.FAILED, text, remedy, key)


def compaction(topic: str, policy: str | None) -> Check:
    name = "offsets topic compaction"
    if policy is None:
        text = f"The worker's principal may not ask for the settings of {topic}, or it is not there."
        return Check(name, Result.UNKNOWN, text, f"Grant it DescribeConfigs on topic {topic}.", OFFSETS_STORAGE_TOPIC)
    if [part.strip() for part in policy.split(",")] == ["compact"]:
        return Check(name, Result.OK, f"{topic} is compacted.", key=OFFSETS_STORAGE_TOPIC)
    text = f"{topic} has cleanup.policy={policy}: source offsets would be deleted, and records read again."
    return Check(name, Result.FAILED, text, f"Set cleanup.policy=compact on {topic}.", OFFSETS_STORAGE_TOPIC)


def granted(principal: str, operation: str, resource: str, answers: Mapping[str, May]) -> Check:
    """One row of the KIP's tables. The names of those that are denied are in the message."""
    name = f"{principal} {operation} {resource}"
    if resource == "Topic":
        name += f" {' '.join(answers)}"
    denied = [each for each, may in answers.items() if may is May.NO]
    if denied:
        more = f" and {len(denied) - _SHOWN} more" if len(denied) > _SHOWN else ""
        text = f"The {principal}'s principal has no {operation} on {resource} {', '.join(denied[:_SHOWN])}{more}."
        return Check(name, Result.FAILED, text, f"Grant {operation} on {resource} {denied[0]}, or on its prefix.")
    shown = next(iter(answers), "")
    if not answers or May.UNKNOWN in answers.values():
        text = f"Whether the {principal}'s principal has {operation} on {resource} {shown} could not be found out."
        return Check(name, Result.UNKNOWN, text, "Compare with the table in the documentation.")
    others = f" and {len(answers) - 1} more" if len(answers) > 1 else ""
    return Check(name, Result.OK, f"{operation} on {resource} {shown}{others}.")


def held(ids: Sequence[str], holders: Mapping[str, Holder], known_tasks: int | None) -> Check:
    """Ids are unique within a group.id; in another group the same id may come about (`a` + `b-c`, `a-b` + `c`)."""
    name, own = "transactional ids", known_tasks or 0
    strangers = [each for number, each in enumerate(ids) if number >= own and holders.get(each, Holder()).state]
    live = [each for each in strangers if holders[each].open]
    remedy = "Make sure that no other program uses these ids; else choose another connector name or group.id."
    if live:
        text = f"Somebody has an open transaction under {', '.join(live[:_SHOWN])}, an id of this connector."
        return Check(name, Result.FAILED, text, remedy)
    if strangers and not own:
        text = f"{', '.join(strangers[:_SHOWN])} was in use within the last days, its holder may still live."
        return Check(name, Result.UNKNOWN, text, remedy)
    if known_tasks is None or not set(ids) <= holders.keys():
        return Check(
            name, Result.UNKNOWN, "Who holds the connector's transactional ids could not be found out.", remedy
        )
    return Check(name, Result.OK, "Nobody else holds the connector's transactional ids.")
