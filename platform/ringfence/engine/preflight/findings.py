"""Preflight's findings: from what a probe answered to a check that people can act on. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from ringfence.connectors.delivery_settings import EXACTLY_ONCE_SUPPORT, OFFSETS_STORAGE_TOPIC
from ringfence.connectors.snapshot_settings import (
    SNAPSHOT_TRANSACTION,
    SNAPSHOT_TRANSACTION_DROP_SLOT,
    SNAPSHOT_TRANSACTION_TIMEOUT_MS,
)
from ringfence.connectors.topic_durability import MIN_ISR, UNCLEAN_ELECTION
from ringfence.fencing.kafka.rights import IdHolder, Permission
from ringfence.fencing.offsets.stores import COMPACTED_SOON

_SHOWN: Final = 5
_A_DAY_MS: Final = 24 * 3600 * 1000


class Result(StrEnum):
    """What a check found."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `key`: the setting it belongs to, if any; `remedy`: what to do where it is not ok.

    decides: where it failed, the connector could not work here, so that validation refuses it (`engine.refusals`). The
    others are warnings: they may be mended beside the configuration, or concern the worker alone.
    """

    name: str
    result: Result
    message: str
    remedy: str = ""
    key: str = ""
    decides: bool = False

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "result": str(self.result), "decides": self.refuses}

    @property
    def refuses(self) -> bool:
        """It failed, and that decides."""
        return self.decides and self.result is Result.FAILED


def lagging(modes: Mapping[str, str] | None, *, required: bool) -> Check | None:
    """Live workers whose exactly.once.source.support is not enabled, by name; None where there are none.

    modes: of all live workers, None where that could not be found out: then nobody is accused.
    """
    behind = {worker: mode for worker, mode in sorted((modes or {}).items()) if mode != "enabled"}
    if not behind:
        return None
    named = ", ".join(f"{worker} ({mode})" for worker, mode in list(behind.items())[:_SHOWN])
    more = f" and {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
    key = EXACTLY_ONCE_SUPPORT
    text = f"Not every worker has exactly-once source support enabled: {named}{more}."
    remedy = "Set exactly.once.source.support=enabled on these workers, and restart them."
    return Check(key, Result.FAILED if required else Result.UNKNOWN, text, remedy, key, decides=required)


def timeout(limit: str | None, timeout_ms: int, snapshot_ms: int = 0) -> Check:
    """snapshot_ms: for how long the transaction of an initial snapshot may be open; 0 where it has none of its own."""
    name, key = "transaction timeout", "producer.override.transaction.timeout.ms"
    of_a_snapshot = snapshot_ms == timeout_ms
    key = SNAPSHOT_TRANSACTION_TIMEOUT_MS if of_a_snapshot else key
    if limit is None:
        text = "The worker's principal may not ask for the broker's transaction.max.timeout.ms."
        return Check(name, Result.UNKNOWN, text, "Grant it DescribeConfigs on the cluster.", key)
    if timeout_ms <= int(limit):
        return Check(name, Result.OK, f"{timeout_ms} ms; the broker allows up to {limit} ms.", key=key)
    if of_a_snapshot:
        text = f"The snapshot's transaction may take {timeout_ms} ms; the broker allows {limit} ms."
        remedy = f"Lower {key} to what the snapshot takes, or raise the broker's transaction.max.timeout.ms."
        return Check(name, Result.FAILED, text, remedy, key, decides=True)
    text = f"The task needs {timeout_ms} ms (at least three commit intervals); the broker allows {limit} ms."
    remedy = f"Shorten the interval, lower {key}, or raise the broker's transaction.max.timeout.ms."
    return Check(name, Result.FAILED, text, remedy, key, decides=True)


_SLOT: Final = "replication slot"
_SLOT_NAME: Final = "slot.name"


def check_slot(slot: str, committed: bool | None, config: Mapping[str, str]) -> Check:
    """slot: the one that Debezium's first snapshot would find, "" where there is none; committed: whether the connector
    has source offsets, None where nobody knows.
    """
    if not slot:
        return Check(_SLOT, Result.OK, "It is not there yet: it is made with the first snapshot.", key=_SLOT_NAME)
    if committed:
        return Check(_SLOT, Result.OK, f"Slot {slot} is there, and source offsets are committed.", key=_SLOT_NAME)
    if committed is None:
        return unknown_slot("whether source offsets are committed cannot be read now")
    one, drops = (
        config.get(name, "").strip().lower() for name in (SNAPSHOT_TRANSACTION, SNAPSHOT_TRANSACTION_DROP_SLOT)
    )
    if one == drops == "true":
        text = f"Slot {slot} is there, and no source offset is committed: the task drops it before the snapshot."
        return Check(_SLOT, Result.OK, text, key=_SLOT_NAME)
    text = (
        f"Slot {slot} is there, and no source offset is committed: an interrupted snapshot has left it, or somebody "
        "else made it. Changes made around the beginning of the next snapshot come twice."
    )
    remedy = (
        f"Drop it with SELECT pg_drop_replication_slot('{slot}'), or set {SNAPSHOT_TRANSACTION}=true and "
        f"{SNAPSHOT_TRANSACTION_DROP_SLOT}=true."
    )
    return Check(_SLOT, Result.FAILED, text, remedy, _SLOT_NAME)


def unknown_slot(why: str) -> Check:
    """The database, or Kafka, could not be asked."""
    text = f"Whether an old slot is there could not be found out: {why}"
    return Check(_SLOT, Result.UNKNOWN, text, "Check the connector's database settings.", _SLOT_NAME)


def compaction(principal: str, topic: str, policy: str | None, exists: bool | None = None) -> Check:
    """policy: the topic's cleanup.policy, None where it could not be read; exists: None where nobody knows."""
    name = "offsets topic compaction"
    if exists is False:
        text = f"{topic} is not there yet: it will be created, compacted."
        return Check(name, Result.OK, text, key=OFFSETS_STORAGE_TOPIC)
    if policy is None:
        text = f"The {principal}'s principal may not ask for the settings of {topic}, or it is not there."
        return Check(name, Result.UNKNOWN, text, f"Grant it DescribeConfigs on topic {topic}.", OFFSETS_STORAGE_TOPIC)
    if [part.strip() for part in policy.split(",")] == ["compact"]:
        return Check(name, Result.OK, f"{topic} is compacted.", key=OFFSETS_STORAGE_TOPIC)
    text = f"{topic} has cleanup.policy={policy}: source offsets would be deleted, and records read again."
    remedy = f"Set cleanup.policy=compact on {topic}."
    return Check(name, Result.FAILED, text, remedy, OFFSETS_STORAGE_TOPIC, decides=True)


def segments(topic: str, segment_ms: str | None) -> Check | None:
    """segment_ms: the offsets topic's segment.ms; None where it could not be read. Compaction waits for it."""
    if segment_ms is None or int(segment_ms) <= _A_DAY_MS:
        return None
    days = int(segment_ms) / _A_DAY_MS
    text = f"{topic} has segment.ms={segment_ms}: what is written to it may stay {days:g} days before it is compacted, "
    text += "and each worker reads all of it when it starts."
    changes = ", ".join(f"{name}={value}" for name, value in COMPACTED_SOON.items())
    return Check("offsets topic segments", Result.FAILED, text, f"Set {changes} on {topic}.", OFFSETS_STORAGE_TOPIC)


def insists(config: Mapping[str, str]) -> bool:
    """Whether the configuration asks for `exactly.once.support=required`."""
    return config.get(EXACTLY_ONCE_SUPPORT, "requested").strip().lower() == "required"


def durability(topic: str, replicas: int, min_isr: str | None, unclean: str | None, *, required: bool) -> Check:
    """Whether an acknowledged commit in this topic outlives the loss of one broker.

    min_isr, unclean: the topic's effective settings, None where they could not be read; replicas: 0 where not known.
    """
    name, key = f"durability of topic {topic}", EXACTLY_ONCE_SUPPORT
    if replicas == 1:
        return Check(name, Result.OK, f"{topic} has one replica: it is kept as well as its one broker is.", key=key)
    if unclean == "true":
        text = f"{topic} has {UNCLEAN_ELECTION}=true: a replica that lags may lead, and committed records are gone."
        remedy = f"Set {UNCLEAN_ELECTION}=false on topic {topic}, or on the brokers."
        return Check(name, Result.FAILED, text, remedy, key, decides=required)
    if not replicas or min_isr is None or unclean is None:
        text = f"Whether {topic} keeps what was committed when a broker is lost could not be found out."
        return Check(name, Result.UNKNOWN, text, f"Grant DescribeConfigs and Describe on topic {topic}.", key)
    if int(min_isr) < 2:
        text = f"{topic} has {replicas} replicas and {MIN_ISR}={min_isr}: "
        text += "a commit may be acknowledged while only one broker has it, and is lost with that broker."
        more = "" if replicas > 2 else " (with a third replica, so that one broker may be away)"
        return Check(name, Result.FAILED, text, f"Set {MIN_ISR}=2 on topic {topic}{more}.", key, decides=required)
    return Check(name, Result.OK, f"{topic} has {replicas} replicas, {MIN_ISR}={min_isr}.", key=key)


def idempotence(version: tuple[int, ...]) -> Check | None:
    """The row of the KIP's tables that brokers from 2.8 on need no more (KIP-679). Nobody can ask for it quietly."""
    if version >= (2, 8):
        return None
    text = "Brokers before Kafka 2.8 ask for IdempotentWrite on the cluster from everyone who writes."
    remedy = "Grant IdempotentWrite on the Cluster to the worker's principal and to the producer's."
    return Check("IdempotentWrite Cluster", Result.UNKNOWN, text, remedy)


def check_config_topic_closed(topic: str, may: Permission) -> Check:
    """Whether the broker keeps the login that tasks produce with out of the config topic: a second line of defence.

    The task refuses records to that topic by itself.
    """
    name = "producer kept out of the config topic"
    match may:
        case Permission.NO:
            return Check(name, Result.OK, f"The tasks' producer may not write {topic}.")
        case Permission.YES:
            text = f"The tasks' producer may write {topic}: only the task itself keeps records out of it."
            remedy = (
                "Give tasks a login of their own by the worker setting producer.sasl.jaas.config, without Write on "
                "that topic, or connectors by producer.override.sasl.jaas.config."
            )
            return Check(name, Result.FAILED, text, remedy)
        case _:
            text = f"Whether the tasks' producer may write {topic} cannot be found out."
            return Check(name, Result.UNKNOWN, text, f"Grant it no Write on topic {topic}.")


def check_granted(
    principal: str,
    operation: str,
    resource: str,
    answers: Mapping[str, Permission],
    key: str = "",
    *,
    decides: bool = True,
) -> Check:
    """One row of the KIP's tables. The names of those that are denied are in the message."""
    name = f"{principal} {operation} {resource}"
    if resource == "Topic":
        name += f" {' '.join(answers)}"
    denied = [each for each, may in answers.items() if may is Permission.NO]
    if denied:
        more = f" and {len(denied) - _SHOWN} more" if len(denied) > _SHOWN else ""
        text = f"The {principal}'s principal has no {operation} on {resource} {', '.join(denied[:_SHOWN])}{more}."
        remedy = f"Grant {operation} on {resource} {denied[0]}, or on its prefix."
        return Check(name, Result.FAILED, text, remedy, key, decides=decides)
    shown = next(iter(answers), "")
    if not answers or Permission.UNKNOWN in answers.values():
        text = f"Whether the {principal}'s principal has {operation} on {resource} {shown} could not be found out."
        return Check(name, Result.UNKNOWN, text, "Compare with the table in the documentation.", key)
    others = f" and {len(answers) - 1} more" if len(answers) > 1 else ""
    return Check(name, Result.OK, f"{operation} on {resource} {shown}{others}.", key=key)


def check_holders(ids: Sequence[str], holders: Mapping[str, IdHolder], known_tasks: int | None) -> Check:
    """Ids are unique within a group.id; in another group the same id may come about (`a` + `b-c`, `a-b` + `c`)."""
    name, own = "transactional ids", known_tasks or 0
    strangers = [each for number, each in enumerate(ids) if number >= own and holders.get(each, IdHolder()).state]
    live = [each for each in strangers if holders[each].open]
    remedy = "Make sure that no other program uses these ids; else choose another connector name or group.id."
    if live:
        text = f"Somebody has an open transaction under {', '.join(live[:_SHOWN])}, an id of this connector."
        # Only where it is open for sure: a transaction that is being ended is nobody's any more in a moment.
        ongoing = any(holders[each].state == "Ongoing" for each in live)
        return Check(name, Result.FAILED, text, remedy, "name", decides=known_tasks is not None and ongoing)
    if strangers and not own:
        text = f"{', '.join(strangers[:_SHOWN])} was in use within the last days, its holder may still live."
        return Check(name, Result.UNKNOWN, text, remedy)
    if known_tasks is None or not set(ids) <= holders.keys():
        return Check(
            name, Result.UNKNOWN, "Who holds the connector's transactional ids could not be found out.", remedy
        )
    return Check(name, Result.OK, "Nobody else holds the connector's transactional ids.")
