"""What can be known before a connector runs: will it be exactly once here, and may it do what it has to (KIP-618).

Checks have no side effect on running tasks (fencing/kafka/probes.py). Where a question cannot be answered, for example
because this principal may not ask it, the result is `unknown`: neither promise nor alarm.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from connectors.common_settings import TASKS_MAX
from connectors.delivery_settings import EXACTLY_ONCE_SUPPORT, TRANSACTION_BOUNDARY
from fencing.boundaries import Boundaries
from fencing.client_settings import connection_of, producer_overrides, transaction_timeout_ms
from fencing.clock import Deadline
from fencing.config_log import ConfigLog
from fencing.errors import FencingError, Invalid
from fencing.ids import ConnectorName, TaskId, leader_transactional_id, task_transactional_id
from fencing.kafka.overrides import Role
from fencing.kafka.probes import Prober, unusable
from fencing.kafka.settings import Connection
from ringfence.engine import findings
from ringfence.engine.client_overrides import warnings_of
from ringfence.engine.findings import Check, Result
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.errors import BadRequest, PluginError, UnknownPlugin
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_MOST_IDS: Final = 200


@dataclass(frozen=True, slots=True)
class Question:
    """A connector's configuration, and what the worker knows of it.

    support: the connector's own word (supported, unsupported, unknown); boundaries: that it can define transactions
    itself. known_tasks: how many tasks a connector of this
    name has here, or had last; None where that could not be read. warnings: settings that are ignored.
    """

    config: Mapping[str, str]
    support: str
    boundaries: bool
    known_tasks: int | None
    warnings: Mapping[str, str]

    @property
    def connector(self) -> ConnectorName:
        return ConnectorName(self.config.get("name", ""))

    @property
    def tasks(self) -> int:
        text = self.config.get(TASKS_MAX, "1").strip()
        return max(1, int(text)) if text.isdecimal() else 1


def examine(config: Mapping[str, str], worker: WorkerConfig, plugins: PluginHost, limit: Deadline) -> list[Check]:
    """All checks of a configuration. Raises the plugin errors of one that names no connector that is there."""
    try:
        support, boundaries = plugins.exactly_once_support(config, max(0.1, limit.slice(10)))
    except (UnknownPlugin, BadRequest):
        raise
    except PluginError as error:
        log.warning("Connector %s could not be asked: %s", config.get("name"), error.message)
        support, boundaries = "unknown", False
    known = _known_tasks(ConnectorName(config.get("name", "")), worker, limit)
    return checks(Question(config, support, boundaries, known, warnings_of(config, worker)), worker)


def _known_tasks(name: ConnectorName, worker: WorkerConfig, limit: Deadline) -> int | None:
    """How many of the name's transactional ids belong to this cluster, as its config topic says."""
    try:
        follower = ConfigLog(
            worker.connection("ringfence-preflight"), worker.config_topic, Deadline.after(limit.slice(5))
        )
        try:
            connector = follower.refresh(Deadline.after(limit.slice(10))).connector(name)
        finally:
            follower.close()
    except FencingError as error:
        log.info("Preflight of %s: %s", name, error)
        return None
    return max(len(connector.tasks), connector.count.tasks if connector.count else 0)


def checks(question: Question, worker: WorkerConfig) -> list[Check]:
    """All checks, in the order in which people should read them. Takes seconds where brokers do not answer."""
    found = [_support(question, worker), *_boundary(question), *_ignored(question)]
    base = worker.connection(f"ringfence-preflight-{question.connector}")
    try:
        roles = {role: connection_of(role, base, worker.settings, question.config) for role in Role}
        timeout_ms = _timeout_ms(question, worker)
        overrides = producer_overrides(base, worker.settings, question.config, timeout_ms)
    except Invalid as error:
        remedy = "Correct the settings: nothing else can be checked before."
        return [*found, Check("client settings", Result.FAILED, str(error), remedy)]
    found.append(_settings(roles[Role.PRODUCER], overrides, timeout_ms))
    principals: list[tuple[str, Connection, Callable[[Prober], Iterator[Check]]]] = [
        ("worker", base, lambda prober: _as_worker(prober, worker, timeout_ms)),
        ("producer", roles[Role.PRODUCER], lambda prober: _as_producer(prober, question, worker)),
        ("consumer", roles[Role.CONSUMER], lambda prober: _as_consumer(prober, worker)),
        ("admin", roles[Role.ADMIN], lambda prober: _as_admin(prober, question, worker)),
    ]
    with ExitStack() as stack:
        probers: dict[frozenset[tuple[str, str]], Prober] = {}
        for principal, connection, ask in principals:
            try:
                login = frozenset(connection.settings.items())  # mostly all principals are one
                if login not in probers:
                    probers[login] = stack.enter_context(Prober(connection))
                for check in ask(probers[login]):
                    found.append(check)
            except FencingError as error:
                refused = error.code == "SASL_AUTHENTICATION_FAILED"
                result = Result.FAILED if refused else Result.UNKNOWN
                remedy = f"Check the {principal}'s address, security.protocol and credentials."
                found.append(Check(f"{principal} connection", result, str(error), remedy))
    return found


def _support(question: Question, worker: WorkerConfig) -> Check:
    required = question.config.get(EXACTLY_ONCE_SUPPORT, "requested").strip().lower() == "required"
    failed = Result.FAILED if required else Result.UNKNOWN
    key = EXACTLY_ONCE_SUPPORT
    if worker.mode != "enabled":
        text = "This worker does not have exactly-once source support enabled."
        return Check(key, failed, text, "Set exactly.once.source.support=enabled on every worker.", key)
    match question.support:
        case "supported":
            return Check(key, Result.OK, "The connector says that it is exactly once with this configuration.", key=key)
        case "unsupported":
            text = "The connector says that it cannot be exactly once with this configuration."
            return Check(key, Result.FAILED, text, "See its documentation for the settings that it needs.", key)
        case _:
            text = "The connector does not say whether it can be exactly once."
            remedy = f"Read its documentation; if that promises exactly-once, use {key}=requested."
            return Check(key, failed, text, remedy, key)


def _boundary(question: Question) -> Iterator[Check]:
    key = TRANSACTION_BOUNDARY
    if question.config.get(key, "").strip().lower() != "connector":
        return
    if question.boundaries:
        yield Check(key, Result.OK, "The connector can define transactions with this configuration.", key=key)
    else:
        text = "The connector cannot define transactions with this configuration, or does not say that it can."
        yield Check(key, Result.FAILED, text, "Use transaction.boundary=poll or interval.", key)


def _ignored(question: Question) -> Iterator[Check]:
    for name, text in question.warnings.items():
        yield Check("ignored setting", Result.FAILED, text, f"Remove {name}.", name)


def _timeout_ms(question: Question, worker: WorkerConfig) -> int:
    boundaries = Boundaries.of(question.config, worker.number("offset.flush.interval.ms"))
    return boundaries.transaction_timeout_ms(transaction_timeout_ms(worker.settings, question.config))


def _settings(connection: Connection, overrides: Mapping[str, object], timeout_ms: int) -> Check:
    problem = unusable(connection, overrides, timeout_ms)
    if problem is None:
        return Check("client settings", Result.OK, "The producer accepts its settings.")
    remedy = "Correct the producer. and producer.override. settings."
    return Check("client settings", Result.FAILED, f"The producer does not accept its settings: {problem}", remedy)


def _ids(question: Question, worker: WorkerConfig) -> list[str]:
    count = min(question.tasks, _MOST_IDS)
    return [task_transactional_id(worker.group_id, TaskId(question.connector, number)) for number in range(count)]


def _as_worker(prober: Prober, worker: WorkerConfig, timeout_ms: int) -> Iterator[Check]:
    enough, version = prober.exactly_once()
    if enough:
        yield Check("broker version", Result.OK, f"Kafka {version} or newer.")
    else:
        text = f"The broker is Kafka {version}; exactly-once needs 2.5."
        yield Check("broker version", Result.FAILED, text, "Upgrade the brokers.")
    yield findings.timeout(prober.broker_setting("transaction.max.timeout.ms"), timeout_ms)
    yield findings.compaction(worker.offsets_topic, prober.topic_setting(worker.offsets_topic, "cleanup.policy"))
    leader = leader_transactional_id(worker.group_id)
    yield findings.granted("worker", "Write", "TransactionalId", prober.write_ids([leader]))
    yield findings.granted("worker", "Describe", "TransactionalId", prober.describe_ids([leader])[0])


def _as_producer(prober: Prober, question: Question, worker: WorkerConfig) -> Iterator[Check]:
    ids = _ids(question, worker)
    yield findings.granted("producer", "Write", "TransactionalId", prober.write_ids(ids))
    may, holders = prober.describe_ids(ids)
    yield findings.granted("producer", "Describe", "TransactionalId", may)
    yield findings.held(ids, holders, question.known_tasks)
    topic = question.config.get("topic", "").strip()
    written = prober.write_topics(ids[0], [worker.offsets_topic, *([topic] if topic else [])])
    yield findings.granted("producer", "Write", "Topic", {worker.offsets_topic: written[worker.offsets_topic]})
    if not topic:
        text = "The configuration has no setting `topic` that says where the connector writes to."
        yield Check("producer Write Topic", Result.UNKNOWN, text, "Grant it Write on the topics that it fills.")
        return
    yield findings.granted("producer", "Write", "Topic", {topic: written[topic]})
    if prober.topic(topic).exists is False:
        yield findings.granted("producer", "Create", "Topic", {topic: prober.create_topic(topic)})


def _as_consumer(prober: Prober, worker: WorkerConfig) -> Iterator[Check]:
    offsets = worker.offsets_topic
    yield findings.granted("consumer", "Read", "Topic", {offsets: prober.topic(offsets).read})


def _as_admin(prober: Prober, question: Question, worker: WorkerConfig) -> Iterator[Check]:
    ids = _ids(question, worker)
    yield findings.granted("admin", "Write", "TransactionalId", prober.write_ids(ids))
    yield findings.granted("admin", "Describe", "TransactionalId", prober.describe_ids(ids)[0])
    offsets = worker.offsets_topic
    yield findings.granted("admin", "Describe", "Topic", {offsets: prober.topic(offsets).describe})
