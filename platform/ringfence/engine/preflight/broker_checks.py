"""The preflight checks that ask brokers.

What they support and permit; how many replicas have a record before it counts as written; whether topics take batches
as large as the producer makes them; compacted offsets topics; each principal's permissions on topics; and who may use
the transactional ids of the leader and of the tasks, and who holds them now.

And whether hanging transactions of the connector can be found and ended (KIP-664): first by the connector's admin
client, then, on the worker's cluster, by the worker's principal. Fencing rounds and tasks use the same order. If
neither may, `read_committed` consumers wait at such a transaction until a person ends it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ringfence.connectors.common_settings import (
    EXACTLY_ONCE_SUPPORT,
    OFFSETS_STORAGE_TOPIC,
    SNAPSHOT_TRANSACTION_TIMEOUT_MS,
)
from ringfence.connectors.sdk.kafka_settings.java_names import servers
from ringfence.connectors.sdk.topic_durability import MIN_ISR, UNCLEAN_ELECTION
from ringfence.engine.preflight.other_workers import requires_exactly_once
from ringfence.engine.preflight.subject import MOST_NAMED, PROBERS, Check, Result, Subject, check_granted
from ringfence.engine.queries.hanging_transactions import ids_of
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import leader_transactional_id
from ringfence.fencing.kafka.connection import is_other_cluster
from ringfence.fencing.kafka.open_transactions import may_write_markers
from ringfence.fencing.kafka.permission_probes import OLDEST_BROKER, IdHolder, Permission, Prober
from ringfence.fencing.offsets.stores import COMPACTED_SOON, OffsetStores
from ringfence.fencing.transactions.messages import V2
from ringfence.fencing.transactions.settings import batch_bytes
from ringfence.fencing.transactions.state_machine import LEADERS_WAIT, SHORT_WAIT_MS

_PROTOCOL: Final = "transaction protocol"


def check_version(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    version = _version_text(prober.version)
    if prober.exactly_once():
        yield Check("broker version", Result.OK, f"Kafka {version} or newer.")
    else:
        text = f"The broker is Kafka {version}; exactly-once needs {_version_text(OLDEST_BROKER)}."
        yield Check("broker version", Result.FAILED, text, "Upgrade the brokers.", decides=subject.transactional)
    if (old := check_idempotence(prober.version)) is not None:
        yield old


def _version_text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def check_transactions_v2(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    if subject.transactional:
        level = prober.feature("transaction.version")
        yield check_protocol(level, prober.broker_setting(LEADERS_WAIT) if level >= V2 else None)


def check_protocol(level: int, wait: str | None) -> Check:
    """Say which protocol transactions use. level: of transaction.version; wait: how long a partition leader waits for
    the markers of the last transaction, in ms; None if it is not known.
    """
    if level < V2:
        text = (
            f"transaction.version is {level}: one epoch serves many transactions, so the producer takes a new one "
            "after each abort, and after each transaction in which a request had no answer."
        )
        remedy = (
            "With Kafka 4, set transaction.version to 2 (kafka-features.sh upgrade): brokers refuse late requests then."
        )
        return Check(_PROTOCOL, Result.OK, text, remedy)
    text = f"Transactions v2 (transaction.version {level}): late requests are refused by the broker."
    if wait is None or not wait.isdecimal() or int(wait) <= SHORT_WAIT_MS:
        return Check(_PROTOCOL, Result.OK, text)
    text += (
        f" {LEADERS_WAIT} is {wait}: for so many ms a partition leader keeps a transaction waiting that follows the "
        "last one too closely. Above 50 transactions a second, a task avoids it by one more request for each."
    )
    return Check(_PROTOCOL, Result.OK, text, f"For many small transactions, set {LEADERS_WAIT}=1 on the brokers.")


def check_transaction_timeout(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    if subject.transactional:
        limit = prober.broker_setting("transaction.max.timeout.ms")
        yield check_timeout(limit, subject.timeout_ms, subject.boundaries.snapshot_ms)


def check_timeout(limit: str | None, timeout_ms: int, snapshot_ms: int = 0) -> Check:
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


def check_idempotence(version: tuple[int, ...]) -> Check | None:
    """Return the finding for IdempotentWrite, which brokers from 2.8 on do not require (KIP-679). It cannot be probed
    without side effects.
    """
    if version >= (2, 8):
        return None
    text = "Brokers before Kafka 2.8 require IdempotentWrite on the cluster from every producer."
    remedy = "Grant IdempotentWrite on the Cluster to the worker's principal and to the producer's."
    return Check("IdempotentWrite Cluster", Result.UNKNOWN, text, remedy)


def check_topic_durability(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    if subject.topic:
        yield _check(prober, subject, subject.topic)


def check_worker_topics_durability(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    yield _check(prober, subject, subject.worker.config_topic)
    yield _check(prober, subject, stores.worker.name)


def check_own_offsets_durability(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the connector's own offsets topic, which is created before the first task starts."""
    if stores.own is not None:
        yield _check(prober, subject, stores.own.name)


def _check(prober: Prober, subject: Subject, topic: str) -> Check:
    rights = prober.topic(topic)
    if rights.exists is False:
        text = f"{topic} does not exist yet. If it is created here with three replicas, it gets {MIN_ISR}=2."
        return Check(f"durability of topic {topic}", Result.OK, text, key=EXACTLY_ONCE_SUPPORT)
    min_isr, unclean = (prober.topic_setting(topic, name) for name in (MIN_ISR, UNCLEAN_ELECTION))
    return check_durability(topic, rights.replicas, min_isr, unclean, required=requires_exactly_once(subject.config))


def check_durability(topic: str, replicas: int, min_isr: str | None, unclean: str | None, *, required: bool) -> Check:
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


MOST_BYTES: Final = "max.message.bytes"
BATCH_SIZE: Final = "producer.override.batch.size"


def check_batches(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    """Compare the topic's limit, which counts whole batches, with the producer's `batch.size`."""
    if not subject.topic or prober.topic(subject.topic).exists is False:
        return
    limit = prober.topic_setting(subject.topic, MOST_BYTES)
    yield check_batch_size(subject.topic, limit, batch_bytes(subject.producer_settings))


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


_A_DAY_MS: Final = 24 * 3600 * 1000


def check_worker_offsets_compaction(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    if stores.own is None:
        yield _check_compaction("worker", prober, stores.worker.name)
    yield from _check_segments(prober, stores.worker.name)


def check_own_offsets_compaction(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    if stores.own is not None:
        yield _check_compaction("admin", prober, stores.own.name)
        yield from _check_segments(prober, stores.own.name)


def _check_compaction(principal: str, prober: Prober, topic: str) -> Check:
    policy = prober.topic_setting(topic, "cleanup.policy")
    return check_compaction(principal, topic, policy, prober.topic(topic).exists if policy is None else True)


def _check_segments(prober: Prober, topic: str) -> Iterator[Check]:
    check = check_segments(topic, prober.topic_setting(topic, "segment.ms"))
    if check is not None:
        yield check


def check_compaction(principal: str, topic: str, policy: str | None, exists: bool | None = None) -> Check:
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


def check_segments(topic: str, segment_ms: str | None) -> Check | None:
    """Check how soon an offsets topic is compacted. segment_ms: its segment.ms, None if it could not be read."""
    if segment_ms is None or int(segment_ms) <= _A_DAY_MS:
        return None
    days = int(segment_ms) / _A_DAY_MS
    text = f"{topic} has segment.ms={segment_ms}: its records may stay {days:g} days before they are compacted, "
    text += "and each worker reads all of it when it starts."
    changes = ", ".join(f"{name}={value}" for name, value in COMPACTED_SOON.items())
    return Check("offsets topic segments", Result.FAILED, text, f"Set {changes} on {topic}.", OFFSETS_STORAGE_TOPIC)


_AUTHORIZER: Final = "authorizer.class.name"


def check_write_rights(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the producer's permissions: offsets and records."""
    topic, offsets = subject.topic, stores.effective.name
    topics = [offsets, *([topic] if topic else [])]
    if subject.transactional:
        (first_id,) = ids_of(subject.connector, 1, subject.worker)
        permissions = prober.write_topics(first_id, topics)
    else:
        permissions = {name: prober.topic(name).write for name in topics}
    yield check_granted("producer", "Write", "Topic", {offsets: permissions[offsets]}, OFFSETS_STORAGE_TOPIC)
    if not topic:
        text = "The connector chooses its topics by itself, so this was not checked."
        yield Check("producer Write Topic", Result.UNKNOWN, text, "Make sure that it may write to them.")
        return
    yield check_granted("producer", "Write", "Topic", {topic: permissions[topic]}, "topic")
    if prober.topic(topic).exists is False:  # another client may still create it
        answer = {topic: prober.create_topic(topic)}
        yield check_granted("producer", "Create", "Topic", answer, "topic", decides=False)


def check_config_topic_rights(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    """Check that the tasks' login cannot forge the workers' records, if the cluster distinguishes logins."""
    worker = subject.worker
    if is_other_cluster(worker.bootstrap, worker.settings, subject.config):
        return
    authorizer = prober.broker_setting(_AUTHORIZER)
    if authorizer == "":
        return  # every client may do anything there
    yield check_config_topic_closed(worker.config_topic, prober.topic(worker.config_topic).write)


def check_read_rights(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the consumer's permissions: offsets."""
    offsets = stores.effective.name
    answer = {offsets: prober.topic(offsets).read}
    yield check_granted("consumer", "Read", "Topic", answer, OFFSETS_STORAGE_TOPIC)


def check_describe_rights(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the admin's permissions: the offsets topic."""
    offsets = stores.effective.name
    answer = {offsets: prober.topic(offsets).describe}
    yield check_granted("admin", "Describe", "Topic", answer, OFFSETS_STORAGE_TOPIC)


def check_create_rights(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the admin's permissions: the connector's own offsets topic, which is created before the first
    task starts.
    """
    if stores.own is not None and prober.topic(stores.own.name).exists is False:
        answer = {stores.own.name: prober.create_topic(stores.own.name)}
        yield check_granted("admin", "Create", "Topic", answer, OFFSETS_STORAGE_TOPIC)


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


_ID = "TransactionalId"
_MOST_IDS: Final = 200
NAME: Final = "hanging transactions"

Rights = Mapping[str, Permission]
"""Read for each topic, and under `Cluster` the right to write markers."""

CLUSTER: Final = "Cluster"


def _ids(subject: Subject) -> list[str]:
    """Return the transactional ids of its tasks, of the first ones if there are many."""
    return ids_of(subject.connector, min(subject.tasks_max, _MOST_IDS), subject.worker)


def check_leader_id(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    leader = [leader_transactional_id(subject.worker.group_id)]
    yield check_granted("worker", "Write", _ID, prober.write_ids(leader), decides=False)
    yield check_granted("worker", "Describe", _ID, prober.describe_ids(leader)[0], decides=False)


def check_task_ids(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    """Check whether the tasks' producers may use their ids, and whether tasks of another cluster do."""
    if not subject.transactional:
        return
    ids = _ids(subject)
    yield check_granted("producer", "Write", _ID, prober.write_ids(ids), "name")
    may, holders = prober.describe_ids(ids)
    yield check_granted("producer", "Describe", _ID, may, "name")
    in_use = [number for number, each in enumerate(ids) if holders.get(each, IdHolder()).state]
    known_tasks = subject.known_tasks(max(in_use) + 1) if in_use else 0
    yield _check_holders(subject, holders, known_tasks)


def check_fencing(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check whether a fencing round may fence them."""
    if not subject.transactional:
        return
    # On the worker's own cluster, a round continues with the worker's login if this one is denied.
    alone = _is_alone(subject, stores)
    ids = _ids(subject)
    yield check_granted("admin", "Write", _ID, prober.write_ids(ids), "name", decides=alone)
    yield check_granted("admin", "Describe", _ID, prober.describe_ids(ids)[0], "name", decides=alone)


def check_ending_hanging(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check whether a fencing round may end their hanging transactions."""
    if subject.transactional:
        yield _check_hanging(prober, subject, stores.effective.name, alone=_is_alone(subject, stores))


def _is_alone(subject: Subject, stores: OffsetStores) -> bool:
    return servers(stores.admin.bootstrap) != servers(subject.worker.bootstrap)


def _check_hanging(prober: Prober, subject: Subject, offsets: str, *, alone: bool) -> Check:
    topics = [offsets, *([subject.topic] if subject.topic else [])]
    principals = {"admin": rights_of(prober, topics)}
    check = judge(principals)
    if alone or check.result is Result.OK:
        return check
    try:
        with PROBERS.lease(subject.worker.connection(f"ringfence-preflight-{subject.connector}")) as other:
            principals["worker"] = rights_of(other, topics)
    except FencingError:
        return check  # the worker's own checks report why its principal could not be checked
    return judge(principals)


def _check_holders(subject: Subject, holders: Mapping[str, IdHolder], known_tasks: int | None) -> Check:
    """Check that no other client uses the tasks' ids.

    They are unique within a group.id, but another group may result in the same id (`a` + `b-c`, `a-b` + `c`).
    """
    name, ids, own = "transactional ids", _ids(subject), known_tasks or 0
    strangers = [each for number, each in enumerate(ids) if number >= own and holders.get(each, IdHolder()).state]
    live = [each for each in strangers if holders[each].open]
    remedy = "Make sure that no other program uses these ids; else choose another connector name or group.id."
    if live:
        text = f"Another client has an open transaction under {', '.join(live[:MOST_NAMED])}, an id of this connector."
        # Only if it is certainly open: a transaction that is ending no longer has a holder in a moment.
        ongoing = any(holders[each].state == "Ongoing" for each in live)
        return Check(name, Result.FAILED, text, remedy, "name", decides=known_tasks is not None and ongoing)
    if strangers and not own:
        text = f"{', '.join(strangers[:MOST_NAMED])} was in use within the last days, and its holder may still run."
        return Check(name, Result.UNKNOWN, text, remedy)
    if known_tasks is None or not set(ids) <= holders.keys():
        return Check(name, Result.UNKNOWN, "It is unknown who holds the connector's transactional ids.", remedy)
    if subject.tasks_max > len(ids):
        text = f"No other client holds the transactional ids of the first {len(ids)} tasks; the others are not checked."
        return Check(name, Result.OK, text)
    return Check(name, Result.OK, "No other client holds the connector's transactional ids.")


def rights_of(prober: Prober, topics: Sequence[str]) -> Rights:
    """Return the principal's rights. A topic that does not exist needs none."""
    rights = {name: prober.topic(name) for name in topics}
    reads = {name: one.read for name, one in rights.items() if one.exists is not False}
    return {**reads, CLUSTER: may_write_markers(prober)}


def judge(principals: Mapping[str, Rights]) -> Check:
    """Return the finding. principals: the rights by principal, in the order in which they are used. Pure."""
    for principal, rights in principals.items():
        if set(rights.values()) == {Permission.YES}:
            return Check(NAME, Result.OK, f"The {principal}'s principal may find and end hanging transactions.")
    missing = [
        f"the {principal}'s principal has no {_describe(name)}"
        for principal, rights in principals.items()
        for name, may in rights.items()
        if may is Permission.NO
    ]
    topics = sorted({name for rights in principals.values() for name in rights if name != CLUSTER})
    remedy = (
        f"Grant the {' or the '.join(reversed(list(principals)))}'s principal Read on {', '.join(topics)}, and "
        "ClusterAction or Alter on the Cluster."
    )
    denied = all(Permission.NO in rights.values() for rights in principals.values())
    if not denied:
        return Check(NAME, Result.UNKNOWN, "Whether hanging transactions can be ended could not be found out.", remedy)
    text = f"Hanging transactions of this connector are not found, or not ended: {'; '.join(missing)}."
    return Check(NAME, Result.FAILED, text, remedy)


def _describe(name: str) -> str:
    return "ClusterAction or Alter on the Cluster" if name == CLUSTER else f"Read on topic {name}"
