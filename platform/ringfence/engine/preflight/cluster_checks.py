"""Preflight's questions to the clusters: one function for each principal of the KIP's tables of permissions.

None has a side effect on a running task (fencing/kafka/probes.py). Where a question cannot be answered, for example
because this principal may not ask it, the result is `unknown`: neither promise nor alarm.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.delivery_settings import EXACTLY_ONCE_SUPPORT, OFFSETS_STORAGE_TOPIC
from ringfence.connectors.egress import Refused
from ringfence.connectors.kafka_settings.java_names import Role, servers
from ringfence.connectors.topic_durability import MIN_ISR, UNCLEAN_ELECTION
from ringfence.engine.preflight import findings, hanging_rights, share_checks
from ringfence.engine.preflight.client_overrides import has_placeholder
from ringfence.engine.preflight.findings import Check, Result
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.ids import ConnectorName, TaskId, leader_transactional_id, task_transactional_id
from ringfence.fencing.kafka.client_pool import ClientPool, Login, login_of
from ringfence.fencing.kafka.client_settings import connection_of, elsewhere, producer_overrides, transaction_timeout_ms
from ringfence.fencing.kafka.probes import Prober, unusable
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.offsets.stores import OffsetStores, stores_of
from ringfence.fencing.task.boundaries import Boundaries
from ringfence.worker_config import WorkerConfig

_AUTHORIZER: Final = "authorizer.class.name"
_MOST_IDS: Final = 200
_LOGIN_REFUSED: Final = "SASL_AUTHENTICATION_FAILED"
_probers = ClientPool(Prober)


@dataclass(frozen=True, slots=True)
class Asker:
    """A connector's configuration, the worker that would run it, and what is known of its name.

    known_tasks: how many tasks a connector of this name has here, or had last; None where that could not be read. Asked
    only where somebody holds one of its transactional ids.
    """

    config: Mapping[str, str]
    worker: WorkerConfig
    known_tasks: Callable[[], int | None]

    @property
    def connector(self) -> ConnectorName:
        return ConnectorName(self.config.get("name", ""))

    @property
    def transactional(self) -> bool:
        """Whether its tasks write in transactions here."""
        return self.worker.mode == "enabled"

    @property
    def ids(self) -> list[str]:
        """The transactional ids of its tasks, as many as are worth asking for."""
        text = self.config.get(TASKS_MAX, "1").strip()
        count = min(max(1, int(text)) if text.isdecimal() else 1, _MOST_IDS)
        return [task_transactional_id(self.worker.group_id, TaskId(self.connector, number)) for number in range(count)]

    @property
    def topic(self) -> str:
        """The topic that it fills, "" where it does not say so under the usual name, or a provider says it."""
        topic = self.config.get("topic", "").strip()
        return "" if has_placeholder(topic) else topic

    @property
    def timeout_ms(self) -> int:
        """The transaction timeout that its tasks settle on."""
        return self.boundaries.transaction_timeout_ms(transaction_timeout_ms(self.worker.settings, self.config))

    @property
    def boundaries(self) -> Boundaries:
        return Boundaries.of(self.config, self.worker.number("offset.flush.interval.ms"))


def checks(asker: Asker) -> Iterator[Check]:
    """All of them, each as soon as it is answered. Takes seconds where brokers do not answer."""
    worker = asker.worker
    base = worker.connection(f"ringfence-preflight-{asker.connector}")
    provided = {role for role in Role if has_placeholder(_overrides(role, asker.config))}
    known = {key: value for key, value in asker.config.items() if not has_placeholder(value)}
    try:
        producer = connection_of(Role.PRODUCER, base, worker.settings, known)
        overrides = producer_overrides(base, worker.settings, known, asker.timeout_ms)
        topic, settings = worker.offsets_topic, worker.settings
        stores = stores_of(base, topic, settings, known, transactional=asker.transactional)
    except Invalid as error:
        remedy = "Correct the settings: nothing else can be checked before."
        closed = isinstance(error.__cause__, Refused)  # validation says the others by itself
        key = "producer.override.bootstrap.servers" if closed else ""
        yield Check("client settings", Result.FAILED, str(error), remedy, key, decides=closed)
        return
    if Role.PRODUCER not in provided and asker.transactional:
        yield _settings(producer, overrides, asker.timeout_ms)
    principals: list[tuple[str, Connection, Callable[[Prober, Asker, OffsetStores], Iterator[Check]]]] = [
        ("worker", base, _as_worker),
        ("producer", producer, _as_producer),
        ("consumer", stores.effective.reading, _as_consumer),
        ("admin", stores.admin, _as_admin),
    ]
    # Who asks that cluster for its limits: the worker's principal may, more often than a producer's.
    nearest = "worker" if servers(producer.bootstrap) == servers(base.bootstrap) else "producer"
    silent: dict[Login, FencingError] = {}  # mostly all principals are one: it is waited for once
    for principal, connection, ask in principals:
        if principal in provided:
            text = f"Settings of the {principal} come from a configuration provider, and are read by the tasks only."
            yield Check(f"{principal} connection", Result.UNKNOWN, text, "Compare with the table in the documentation.")
            continue
        login = login_of(connection)
        try:
            if login in silent:
                raise silent[login]
            with _probers.lease(connection) as prober:
                if principal == nearest:
                    yield from _limits(prober, asker)
                yield from ask(prober, asker, stores)
        except FencingError as error:
            silent[login] = error
            yield _unknown_check(principal, error, asker.config)
    if share_checks.concerns(asker.config):
        yield from share_checks.checks(asker.config, worker)


def _overrides(role: str, config: Mapping[str, str]) -> str:
    return " ".join(value for key, value in config.items() if key.startswith(f"{role}.override."))


def _unknown_check(principal: str, error: FencingError, config: Mapping[str, str]) -> Check:
    refused = error.code == _LOGIN_REFUSED
    own = [key for key in sorted(config) if key.startswith(f"{principal}.override.sasl.")]
    remedy = f"Check the {principal}'s address, security.protocol and credentials."
    result = Result.FAILED if refused else Result.UNKNOWN
    return Check(f"{principal} connection", result, str(error), remedy, own[0] if own else "", decides=bool(own))


def _settings(connection: Connection, overrides: Mapping[str, object], timeout_ms: int) -> Check:
    problem = unusable(connection, overrides, timeout_ms)
    if problem is None:
        return Check("client settings", Result.OK, "The producer accepts its settings.")
    remedy = "Correct the producer. and producer.override. settings."
    text = f"The producer does not accept its settings: {problem}"
    return Check("client settings", Result.FAILED, text, remedy, decides=True)


def _limits(prober: Prober, asker: Asker) -> Iterator[Check]:
    """What the brokers that the tasks write to can do, and allow."""
    version = ".".join(str(part) for part in prober.version)
    if prober.exactly_once():
        yield Check("broker version", Result.OK, f"Kafka {version} or newer.")
    else:
        text = f"The broker is Kafka {version}; exactly-once needs 2.5."
        yield Check("broker version", Result.FAILED, text, "Upgrade the brokers.", decides=asker.transactional)
    if (old := findings.idempotence(prober.version)) is not None:
        yield old
    if asker.topic:
        yield _durability(prober, asker, asker.topic)
    if asker.transactional:
        limit = prober.broker_setting("transaction.max.timeout.ms")
        yield findings.timeout(limit, asker.timeout_ms, asker.boundaries.snapshot_ms)


def _as_worker(prober: Prober, asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    yield _durability(prober, asker, asker.worker.config_topic)
    yield _durability(prober, asker, stores.worker.name)
    if stores.own is None:
        yield _compaction("worker", prober, stores.worker.name)
    yield from _segments(prober, stores.worker.name)
    leader = leader_transactional_id(asker.worker.group_id)
    yield findings.check_granted("worker", "Write", "TransactionalId", prober.write_ids([leader]), decides=False)
    yield findings.check_granted(
        "worker", "Describe", "TransactionalId", prober.describe_ids([leader])[0], decides=False
    )


def _compaction(principal: str, prober: Prober, topic: str) -> Check:
    policy = prober.topic_setting(topic, "cleanup.policy")
    return findings.compaction(principal, topic, policy, prober.topic(topic).exists if policy is None else True)


def _segments(prober: Prober, topic: str) -> Iterator[Check]:
    found = findings.segments(topic, prober.topic_setting(topic, "segment.ms"))
    if found is not None:
        yield found


def _durability(prober: Prober, asker: Asker, topic: str) -> Check:
    seen = prober.topic(topic)
    if seen.exists is False:
        text = f"{topic} is not there yet. Created here with three replicas, it gets {MIN_ISR}=2."
        return Check(f"durability of topic {topic}", Result.OK, text, key=EXACTLY_ONCE_SUPPORT)
    min_isr, unclean = (prober.topic_setting(topic, name) for name in (MIN_ISR, UNCLEAN_ELECTION))
    return findings.durability(topic, seen.replicas, min_isr, unclean, required=findings.insists(asker.config))


def _as_producer(prober: Prober, asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    ids, topic, offsets = asker.ids, asker.topic, stores.effective.name
    topics = [offsets, *([topic] if topic else [])]
    if asker.transactional:
        yield findings.check_granted("producer", "Write", "TransactionalId", prober.write_ids(ids), "name")
        may, holders = prober.describe_ids(ids)
        yield findings.check_granted("producer", "Describe", "TransactionalId", may, "name")
        known = asker.known_tasks() if any(holder.state for holder in holders.values()) else 0
        yield findings.check_holders(ids, holders, known)
        written = prober.write_topics(ids[0], topics)
    else:
        written = {name: prober.topic(name).write for name in topics}
    yield findings.check_granted("producer", "Write", "Topic", {offsets: written[offsets]}, OFFSETS_STORAGE_TOPIC)
    yield from _check_config_topic(prober, asker)
    if not topic:
        text = "The configuration has no setting `topic` that says where the connector writes to."
        yield Check("producer Write Topic", Result.UNKNOWN, text, "Grant it Write on the topics that it fills.")
        return
    yield findings.check_granted("producer", "Write", "Topic", {topic: written[topic]}, "topic")
    if prober.topic(topic).exists is False:  # somebody else may still create it
        answer = {topic: prober.create_topic(topic)}
        yield findings.check_granted("producer", "Create", "Topic", answer, "topic", decides=False)


def _check_config_topic(prober: Prober, asker: Asker) -> Iterator[Check]:
    """Whether the tasks' login is one that cannot forge the workers' records, where the cluster tells logins apart."""
    worker = asker.worker
    if elsewhere(worker.bootstrap, worker.settings, asker.config):
        return
    authorizer = prober.broker_setting(_AUTHORIZER)
    if authorizer == "":
        return  # every client may do everything there
    yield findings.check_config_topic_closed(worker.config_topic, prober.topic(worker.config_topic).write)


def _as_consumer(prober: Prober, asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    offsets = stores.effective.name
    yield findings.check_granted(
        "consumer", "Read", "Topic", {offsets: prober.topic(offsets).read}, OFFSETS_STORAGE_TOPIC
    )


def _hanging(prober: Prober, asker: Asker, offsets: str, *, alone: bool) -> Check:
    topics = [offsets, *([asker.topic] if asker.topic else [])]
    principals = {"admin": hanging_rights.rights_of(prober, topics)}
    found = hanging_rights.judge(principals)
    if alone or found.result is Result.OK:
        return found
    try:
        with _probers.lease(asker.worker.connection(f"ringfence-preflight-{asker.connector}")) as other:
            principals["worker"] = hanging_rights.rights_of(other, topics)
    except FencingError:
        return found  # why the worker's principal could not be asked is said by its own checks
    return hanging_rights.judge(principals)


def _as_admin(prober: Prober, asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    ids, offsets = asker.ids, stores.effective.name
    if asker.transactional:
        # On the worker's own cluster a round goes on with the worker's login, where this one is denied.
        alone = servers(stores.admin.bootstrap) != servers(asker.worker.bootstrap)
        may = prober.write_ids(ids)
        yield findings.check_granted("admin", "Write", "TransactionalId", may, "name", decides=alone)
        may = prober.describe_ids(ids)[0]
        yield findings.check_granted("admin", "Describe", "TransactionalId", may, "name", decides=alone)
        yield _hanging(prober, asker, offsets, alone=alone)
    seen = prober.topic(offsets)
    yield findings.check_granted("admin", "Describe", "Topic", {offsets: seen.describe}, OFFSETS_STORAGE_TOPIC)
    if stores.own is not None:  # it is created before the first task starts
        yield _compaction("admin", prober, offsets)
        yield from _segments(prober, offsets)
        yield _durability(prober, asker, offsets)
        if seen.exists is False:
            answer = {offsets: prober.create_topic(offsets)}
            yield findings.check_granted("admin", "Create", "Topic", answer, OFFSETS_STORAGE_TOPIC)
