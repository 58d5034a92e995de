"""Preflight's findings: turns the result of a probe into a check with a remedy. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from ringfence.connectors.delivery_settings import EXACTLY_ONCE_SUPPORT, OFFSETS_STORAGE_TOPIC
from ringfence.connectors.snapshot_settings import SNAPSHOT_TRANSACTION_TIMEOUT_MS
from ringfence.connectors.topic_durability import MIN_ISR, UNCLEAN_ELECTION
from ringfence.engine.preflight.check import Check, Result
from ringfence.fencing.kafka.permissions import IdHolder, Permission
from ringfence.fencing.offsets.stores import COMPACTED_SOON

_SHOWN: Final = 5
_A_DAY_MS: Final = 24 * 3600 * 1000

MOST_BYTES: Final = "max.message.bytes"
BATCH_SIZE: Final = "producer.override.batch.size"


def lagging(modes: Mapping[str, str] | None, *, required: bool) -> Check | None:
    """Return the finding for live workers without exactly.once.source.support=enabled; None if there are none.

    modes: of all live workers; None if unknown, and then there is no finding.
    """
    behind = {worker: mode for worker, mode in sorted((modes or {}).items()) if mode != "enabled"}
    if not behind:
        return None
    workers = ", ".join(f"{worker} ({mode})" for worker, mode in list(behind.items())[:_SHOWN])
    more = f" and {len(behind) - _SHOWN} more" if len(behind) > _SHOWN else ""
    key = EXACTLY_ONCE_SUPPORT
    text = f"Not every worker has exactly-once source support enabled: {workers}{more}."
    remedy = "Set exactly.once.source.support=enabled on these workers, and restart them."
    return Check(key, Result.FAILED if required else Result.UNKNOWN, text, remedy, key, decides=required)


def timeout(limit: str | None, timeout_ms: int, snapshot_ms: int = 0) -> Check:
    """Check the transaction timeout. limit: the broker's; snapshot_ms: how long an initial snapshot's transaction may
    take, 0 if it has none.
    """
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


def compaction(principal: str, topic: str, policy: str | None, exists: bool | None = None) -> Check:
    """Check an offsets topic. policy: its cleanup.policy, None if it could not be read; exists: None if unknown."""
    name = "offsets topic compaction"
    if exists is False:
        text = f"{topic} does not exist yet: it will be created, compacted."
        return Check(name, Result.OK, text, key=OFFSETS_STORAGE_TOPIC)
    if policy is None:
        text = f"The {principal}'s principal may not read the settings of {topic}, or the topic does not exist."
        return Check(name, Result.UNKNOWN, text, f"Grant it DescribeConfigs on topic {topic}.", OFFSETS_STORAGE_TOPIC)
    if [part.strip() for part in policy.split(",")] == ["compact"]:
        return Check(name, Result.OK, f"{topic} is compacted.", key=OFFSETS_STORAGE_TOPIC)
    text = f"{topic} has cleanup.policy={policy}: source offsets would be deleted, and records read again."
    remedy = f"Set cleanup.policy=compact on {topic}."
    return Check(name, Result.FAILED, text, remedy, OFFSETS_STORAGE_TOPIC, decides=True)


def segments(topic: str, segment_ms: str | None) -> Check | None:
    """Check how soon an offsets topic is compacted. segment_ms: its segment.ms, None if it could not be read."""
    if segment_ms is None or int(segment_ms) <= _A_DAY_MS:
        return None
    days = int(segment_ms) / _A_DAY_MS
    text = f"{topic} has segment.ms={segment_ms}: its records may stay {days:g} days before they are compacted, "
    text += "and each worker reads all of it when it starts."
    changes = ", ".join(f"{name}={value}" for name, value in COMPACTED_SOON.items())
    return Check("offsets topic segments", Result.FAILED, text, f"Set {changes} on {topic}.", OFFSETS_STORAGE_TOPIC)


def insists(config: Mapping[str, str]) -> bool:
    """Return whether the configuration has `exactly.once.support=required`."""
    return config.get(EXACTLY_ONCE_SUPPORT, "requested").strip().lower() == "required"


def durability(topic: str, replicas: int, min_isr: str | None, unclean: str | None, *, required: bool) -> Check:
    """Check whether an acknowledged commit in this topic survives the loss of one broker.

    min_isr, unclean: the topic's effective settings, None if they could not be read; replicas: 0 if unknown.
    """
    name, key = f"durability of topic {topic}", EXACTLY_ONCE_SUPPORT
    if replicas == 1:
        return Check(name, Result.OK, f"{topic} has one replica: it is only as durable as its one broker.", key=key)
    if unclean == "true":
        text = (
            f"{topic} has {UNCLEAN_ELECTION}=true: a replica that lags may lead, and committed records are then lost."
        )
        remedy = f"Set {UNCLEAN_ELECTION}=false on topic {topic}, or on the brokers."
        return Check(name, Result.FAILED, text, remedy, key, decides=required)
    if not replicas or min_isr is None or unclean is None:
        text = f"It is unknown whether {topic} keeps committed records when a broker is lost."
        return Check(name, Result.UNKNOWN, text, f"Grant DescribeConfigs and Describe on topic {topic}.", key)
    if int(min_isr) < 2:
        text = f"{topic} has {replicas} replicas and {MIN_ISR}={min_isr}: "
        text += "a commit may be acknowledged while only one broker has it, and is lost with that broker."
        more = "" if replicas > 2 else " (with a third replica, so that one broker may be down)"
        return Check(name, Result.FAILED, text, f"Set {MIN_ISR}=2 on topic {topic}{more}.", key, decides=required)
    return Check(name, Result.OK, f"{topic} has {replicas} replicas, {MIN_ISR}={min_isr}.", key=key)


def idempotence(version: tuple[int, ...]) -> Check | None:
    """Return the finding for IdempotentWrite, which brokers from 2.8 on do not require (KIP-679). It cannot be probed
    without side effects.
    """
    if version >= (2, 8):
        return None
    text = "Brokers before Kafka 2.8 require IdempotentWrite on the cluster from every producer."
    remedy = "Grant IdempotentWrite on the Cluster to the worker's principal and to the producer's."
    return Check("IdempotentWrite Cluster", Result.UNKNOWN, text, remedy)


def check_config_topic_closed(topic: str, may: Permission) -> Check:
    """Check that the broker does not let the tasks' login write the config topic.

    This is a second line of defence: a task refuses records to that topic, too.
    """
    name = "producer kept out of the config topic"
    match may:
        case Permission.NO:
            return Check(name, Result.OK, f"The tasks' producer may not write {topic}.")
        case Permission.YES:
            text = f"The tasks' producer may write {topic}: only the task itself keeps records out of it."
            remedy = (
                "Give tasks a separate login with the worker setting producer.sasl.jaas.config, without Write on "
                "that topic, or connectors by producer.override.sasl.jaas.config."
            )
            return Check(name, Result.FAILED, text, remedy)
        case _:
            text = f"It is unknown whether the tasks' producer may write {topic}."
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
    """Check one row of the KIP's tables. The message names the denied resources."""
    name = f"{principal} {operation} {resource}"
    if resource == "Topic":
        name += f" {' '.join(answers)}"
    denials = [each for each, may in answers.items() if may is Permission.NO]
    if denials:
        more = f" and {len(denials) - _SHOWN} more" if len(denials) > _SHOWN else ""
        text = f"The {principal}'s principal has no {operation} on {resource} {', '.join(denials[:_SHOWN])}{more}."
        remedy = f"Grant {operation} on {resource} {denials[0]}, or on its prefix."
        return Check(name, Result.FAILED, text, remedy, key, decides=decides)
    first = next(iter(answers), "")
    if not answers or Permission.UNKNOWN in answers.values():
        text = f"It is unknown whether the {principal}'s principal has {operation} on {resource} {first}."
        return Check(name, Result.UNKNOWN, text, "Compare with the table in the documentation.", key)
    others = f" and {len(answers) - 1} more" if len(answers) > 1 else ""
    return Check(name, Result.OK, f"{operation} on {resource} {first}{others}.", key=key)


def check_holders(ids: Sequence[str], holders: Mapping[str, IdHolder], known_tasks: int | None) -> Check:
    """Check that no other client uses these ids. They are unique within a group.id, but another group may result in the
    same id (`a` + `b-c`, `a-b` + `c`).
    """
    name, own = "transactional ids", known_tasks or 0
    strangers = [each for number, each in enumerate(ids) if number >= own and holders.get(each, IdHolder()).state]
    live = [each for each in strangers if holders[each].open]
    remedy = "Make sure that no other program uses these ids; else choose another connector name or group.id."
    if live:
        text = f"Another client has an open transaction under {', '.join(live[:_SHOWN])}, an id of this connector."
        # Only if it is certainly open: a transaction that is ending no longer has a holder in a moment.
        ongoing = any(holders[each].state == "Ongoing" for each in live)
        return Check(name, Result.FAILED, text, remedy, "name", decides=known_tasks is not None and ongoing)
    if strangers and not own:
        text = f"{', '.join(strangers[:_SHOWN])} was in use within the last days, and its holder may still run."
        return Check(name, Result.UNKNOWN, text, remedy)
    if known_tasks is None or not set(ids) <= holders.keys():
        return Check(name, Result.UNKNOWN, "It is unknown who holds the connector's transactional ids.", remedy)
    return Check(name, Result.OK, "No other client holds the connector's transactional ids.")


def check_batch_size(topic: str, limit: str | None, size: int) -> Check:
    """Return the finding. limit: the topic's, in bytes; None if this principal may not read it."""
    name = f"batches for topic {topic}"
    if limit is None or not limit.isdecimal():
        return Check(name, Result.UNKNOWN, f"{MOST_BYTES} of {topic} is not visible to this principal.", key=BATCH_SIZE)
    if int(limit) >= size:
        return Check(name, Result.OK, f"{topic} takes batches of up to {int(limit):,} bytes.", key=BATCH_SIZE)
    text = f"{topic} takes at most {int(limit):,} bytes at a time, and the producer may send batches of {size:,} bytes."
    remedy = f"Set {BATCH_SIZE}={limit} or less, or raise {MOST_BYTES} of the topic: the broker refuses larger batches."
    return Check(name, Result.FAILED, text, remedy, key=BATCH_SIZE)
