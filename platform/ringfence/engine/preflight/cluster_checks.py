"""Preflight's checks of the clusters, by the principals in the KIP's tables of permissions; and of the cluster of a
share group that a connector reads, with the connector's login there (`source.cluster.`, `source.consumer.`).

None has a side effect on a running task (fencing/kafka/permission_probes.py, share_groups.py). If a check gets no
answer, for example because this principal may not ask, its result is `unknown`.
"""

import re
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ringfence.connectors.common_settings import CONNECTOR_CLASS
from ringfence.connectors.sdk.egress import EgressDenied
from ringfence.connectors.sdk.features import features_of
from ringfence.connectors.sdk.kafka_settings import share_group
from ringfence.connectors.sdk.kafka_settings.java_names import Role, servers
from ringfence.connectors.sdk.names import list_first
from ringfence.connectors.sdk.topic_durability import UNCLEAN_ELECTION
from ringfence.engine.preflight import broker_checks
from ringfence.engine.preflight.client_overrides import has_placeholder
from ringfence.engine.preflight.other_workers import requires_exactly_once
from ringfence.engine.preflight.subject import MOST_NAMED, PROBERS, Ask, Check, Result, Subject, check_granted
from ringfence.fencing.clock import SYSTEM_CLOCK
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.kafka.client_pool import ClientPool, Login, login_of
from ringfence.fencing.kafka.connection import Connection, connection_of, producer_overrides
from ringfence.fencing.kafka.permission_probes import Answers, Permission
from ringfence.fencing.kafka.share_groups import FEATURE, ShareGroupMember, ShareProber, find_overdue
from ringfence.fencing.offsets.stores import OffsetStores, stores_of
from ringfence.fencing.share.settings import ShareSettings
from ringfence.fencing.transactions.producer import Producer
from ringfence.worker_config import WorkerConfig

_WHO: Final = "source"
_MOST_TOPICS: Final = 20
_RETENTION: Final = "retention.ms"
_SHARE_OF_RETENTION: Final = 0.5
_LEVEL: Final = 1
_FEATURE_CHECK: Final = "share groups"

_probers = ClientPool(ShareProber)


def check_share_group(config: Mapping[str, str], worker: WorkerConfig) -> Iterator[Check]:
    """Yield all check_share_group, each as soon as it is answered; none unless the connector joins a share group."""
    find_input = features_of(config.get(CONNECTOR_CLASS, "")).share_input
    if find_input is None:
        return
    clients = {key: value for key, value in config.items() if key.startswith(("source.", "target."))}
    if any(has_placeholder(value) for value in clients.values()):
        text = "Settings of the source's clients come from a config provider, which only tasks can read."
        yield Check("source connection", Result.UNKNOWN, text, "Compare with docs/share-groups.md.")
        return
    source, topics = find_input(config)
    servers = (source or {}).get("bootstrap.servers", "")
    if source is None or not servers:
        return  # validation reports their errors
    try:
        settings = ShareSettings.of(config)
    except Invalid:
        return  # here, too
    others = {key: value for key, value in source.items() if key != "bootstrap.servers"}
    connection = Connection(servers, others, f"ringfence-preflight-{config.get('name', '')}")
    group = share_group.group_of(worker.group_id, config.get("name", ""), config.get(share_group.GROUP))
    try:
        with _probers.lease(connection) as prober:
            yield (version := judge_version(prober.feature(FEATURE)))
            if version.result is Result.FAILED:
                return
            yield from _check_group(prober, group, f"{worker.group_id}-{config.get('name', '')}", settings)
            # Patterns are matched by the tasks; those that are names are checked.
            for topic in [each for each in topics if re.fullmatch(r"[\w.-]+", each)][:_MOST_TOPICS]:
                yield from _check_topic(prober, topic, settings)
            if prober.describe_group(group) is not Permission.NO:
                yield from _check_overdue(prober, connection, group)
    except FencingError as error:
        remedy = "Check the address, the security settings and the credentials of the source cluster."
        yield Check("source connection", Result.UNKNOWN, str(error), remedy, share_group.SOURCE_SERVERS)


def complete_examination(
    examination: Mapping[str, Any], config: Mapping[str, str], worker: WorkerConfig
) -> Mapping[str, Any]:
    """Return the answer to a test of the connection, with whether the cluster has share groups, if the connector joins
    one. Unchanged if the source did not answer, or if the feature cannot be read.
    """
    version = None if examination["errors"] else next(check_share_group(config, worker), None)
    if version is None or version.name != _FEATURE_CHECK:
        return examination
    if version.result is Result.FAILED:
        text = f"{version.message} {version.remedy}"
        return {"errors": {share_group.SOURCE_SERVERS: [text]}, "summary": "", "proposals": {}}
    return {**examination, "summary": f"{examination['summary']} The cluster has share groups."}


def _check_group(prober: ShareProber, group: str, client_ids: str, settings: ShareSettings) -> Iterator[Check]:
    key = share_group.GROUP
    describe = prober.describe_group(group)
    yield check_granted(_WHO, "Describe", "Group", {group: describe}, key)
    yield check_granted(_WHO, "Read", "Group", {group: prober.read_group(group)}, key)
    may, problem = prober.alter_group(group, settings.of_group)
    yield check_granted(_WHO, "AlterConfigs", "Group", {group: may}, key)
    if problem:
        text = f"The brokers do not accept the settings of share group {group}: {problem}"
        remedy = "Correct the share.* settings, or the brokers' limits (group.share.min.*, group.share.max.*)."
        yield Check("share group settings", Result.FAILED, text, remedy, share_group.LOCK_MS, decides=True)
    if describe is Permission.NO:
        return
    if (kind := prober.kind_of(group)) not in ("", "share"):
        yield judge_kind(group, kind)
        return
    description = prober.describe([group]).get(group)
    yield judge_members(group, description.members if description is not None else (), client_ids)


def _check_topic(prober: ShareProber, topic: str, settings: ShareSettings) -> Iterator[Check]:
    rights = prober.topic(topic)
    if rights.exists is False:
        text = f"{topic} does not exist yet. It is read from its beginning as soon as it exists."
        yield Check(f"input topic {topic}", Result.OK, text, key=share_group.TOPICS)
        return
    yield check_granted(_WHO, "Read", "Topic", {topic: rights.read}, share_group.TOPICS)
    unclean, retention = (prober.topic_setting(topic, name) for name in (UNCLEAN_ELECTION, _RETENTION))
    yield judge_election(topic, unclean, rights.replicas)
    yield judge_retention(topic, retention, settings.sweep_after_s)


def _check_overdue(prober: ShareProber, connection: Connection, group: str) -> Iterator[Check]:
    """Check for records that have waited for longer than half of their topic's retention."""
    starts = [one for one in prober.starts([group]).get(group, []) if one.offset >= 0 and one.lag > 0]
    for topic in sorted({one.topic for one in starts}):
        retention = prober.topic_setting(topic, _RETENTION)
        if retention is None or int(retention) < 0:
            continue
        since = int(SYSTEM_CLOCK.wall() * 1000 - int(retention) * _SHARE_OF_RETENTION)
        waiting = {(topic, one.partition): one.offset for one in starts if one.topic == topic}
        if overdue := find_overdue(connection, waiting, since):
            yield judge_overdue(topic, [number for _, number in overdue], int(retention))


def judge_version(level: int) -> Check:
    """Check the brokers' feature. level: of share.version; 0 if it is not finalised."""
    if level >= _LEVEL:
        return Check(_FEATURE_CHECK, Result.OK, f"{FEATURE} is {level}.", key=share_group.SOURCE_SERVERS)
    text = f"The source's brokers have no share groups: {FEATURE} is not finalised."
    remedy = f"Upgrade them to Kafka 4.2 or newer, then: kafka-features.sh upgrade --feature {FEATURE}={_LEVEL}"
    return Check(_FEATURE_CHECK, Result.FAILED, text, remedy, share_group.SOURCE_SERVERS, decides=True)


def judge_kind(group: str, kind: str) -> Check:
    """Return the finding for a group of another type with this name."""
    text = f"There is a {kind} group of the name {group}, and a share group needs a name of its own."
    remedy = f"Set {share_group.GROUP} to another name."
    return Check("share group type", Result.FAILED, text, remedy, share_group.GROUP, decides=True)


def judge_members(group: str, members: Sequence[ShareGroupMember], client_ids: str) -> Check:
    """Check that the group has no other members. client_ids: the prefix of the client ids of the connector's tasks."""
    name, key = "share group members", share_group.GROUP
    ours = re.compile(re.escape(client_ids) + r"-\d+")
    foreign = [one for one in members if not ours.fullmatch(one.client_id)]
    if not foreign:
        return Check(name, Result.OK, f"Share group {group} has no members besides this connector's tasks.", key=key)
    clients = list_first([f"{one.client_id} at {one.host}" for one in foreign], MOST_NAMED)
    text = (
        f"Share group {group} has other members: {clients}. Both would process its records, as this connector "
        "reads from the topics what others accept."
    )
    remedy = f"Set {key} to a group without other members, or stop these clients."
    return Check(name, Result.FAILED, text, remedy, key, decides=True)


def judge_election(topic: str, unclean: str | None, replicas: int) -> Check:
    """Check the topic's election setting. unclean: unclean.leader.election.enable, None if it could not be read."""
    name, key = f"input topic {topic} elections", share_group.TOPICS
    if unclean == "true" and replicas != 1:
        text = (
            f"{topic} has {UNCLEAN_ELECTION}=true: a replica that lags may become the leader. Processed records are "
            "then lost, and others get their offsets."
        )
        return Check(name, Result.FAILED, text, f"Set {UNCLEAN_ELECTION}=false on topic {topic}.", key)
    if unclean is None:
        text = f"The source's principal may not read the settings of {topic}."
        return Check(name, Result.UNKNOWN, text, f"Grant it DescribeConfigs on topic {topic}.", key)
    return Check(name, Result.OK, f"{topic} keeps its offsets when a broker is lost.", key=key)


def judge_retention(topic: str, retention_ms: str | None, sweep_after_s: float) -> Check:
    """Check that the sweep reads records before they expire."""
    name, key = f"input topic {topic} retention", share_group.SWEEP_AFTER_MS
    if retention_ms is None:
        text = f"The source's principal may not read the settings of {topic}."
        return Check(name, Result.UNKNOWN, text, f"Grant it DescribeConfigs on topic {topic}.", key)
    if 0 <= int(retention_ms) <= sweep_after_s * 1000:
        text = (
            f"{topic} keeps records for {int(retention_ms) / 1000:g} s, but what no task has committed is read again "
            f"after {sweep_after_s:g} s: it may have expired by then."
        )
        return Check(name, Result.FAILED, text, f"Raise {_RETENTION} on topic {topic}, or lower {key}.", key)
    return Check(name, Result.OK, f"{topic} keeps records for longer than the sweep waits.", key=key)


def judge_overdue(topic: str, partitions: Sequence[int], retention_ms: int) -> Check:
    """Return the finding for partitions in which a record waits for longer than half of the retention."""
    numbers = list_first([str(each) for each in sorted(partitions)], MOST_NAMED)
    text = (
        f"{topic} keeps records for {retention_ms / 1000:g} s, and the oldest waiting records in partition {numbers} "
        "have waited for more than half of that: they may expire before they are processed."
    )
    remedy = f"Raise {_RETENTION} on topic {topic}, or let more tasks work on it (tasks.max)."
    return Check(f"input topic {topic} lag", Result.FAILED, text, remedy, share_group.TOPICS)


_LOGIN_REFUSED: Final = "SASL_AUTHENTICATION_FAILED"


class Principal(StrEnum):
    """The principal whose login a check uses."""

    WORKER = "worker"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    """A check, and the principal whose login it uses. None: the worker's or the producer's, depending on which of them
    has a login at the cluster that the tasks write to. may_refuse: whether a configuration with this worker may be
    refused because of it; the others only warn. about_ids: it is about the tasks' transactional ids, whose holders
    change, except for those that are certainly the connector's own.
    """

    principal: Principal | None
    ask: Ask
    may_refuse: Callable[[Subject], bool] = lambda _subject: True
    about_ids: bool = False


def _never(_subject: Subject) -> bool:
    return False


def _if_required(subject: Subject) -> bool:
    return requires_exactly_once(subject.config)


CHECKS: Final = (
    ClusterCheck(None, broker_checks.check_version),
    ClusterCheck(None, broker_checks.check_topic_durability, _if_required),
    ClusterCheck(None, broker_checks.check_batches, _never),
    ClusterCheck(None, broker_checks.check_transaction_timeout),
    ClusterCheck(None, broker_checks.check_transactions_v2, _never),
    ClusterCheck(Principal.WORKER, broker_checks.check_worker_topics_durability, _if_required),
    ClusterCheck(Principal.WORKER, broker_checks.check_worker_offsets_compaction),
    ClusterCheck(Principal.WORKER, broker_checks.check_leader_id, _never),
    ClusterCheck(Principal.PRODUCER, broker_checks.check_task_ids, about_ids=True),
    ClusterCheck(Principal.PRODUCER, broker_checks.check_write_rights),
    ClusterCheck(Principal.PRODUCER, broker_checks.check_config_topic_rights, _never),
    ClusterCheck(Principal.CONSUMER, broker_checks.check_read_rights),
    ClusterCheck(Principal.ADMIN, broker_checks.check_fencing, about_ids=True),
    ClusterCheck(Principal.ADMIN, broker_checks.check_ending_hanging, _never),
    ClusterCheck(Principal.ADMIN, broker_checks.check_describe_rights),
    ClusterCheck(Principal.ADMIN, broker_checks.check_own_offsets_compaction),
    ClusterCheck(Principal.ADMIN, broker_checks.check_own_offsets_durability, _if_required),
    ClusterCheck(Principal.ADMIN, broker_checks.check_create_rights),
)
"""In their order in the report. A new check is one function in `broker_checks` and one line here."""


class Passed:
    """The checks that have passed lately. Thread-safe. A check that found anything is always repeated."""

    SECONDS: Final = 60.0
    _MOST: Final = 10_000

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[Hashable, float] = {}

    def has(self, check: Hashable) -> bool:
        with self._lock:
            return self._clock() < self._until.get(check, 0.0)

    def note(self, check: Hashable, results: Iterable[Check]) -> None:
        if all(each.result is Result.OK for each in results):
            with self._lock:
                if len(self._until) >= self._MOST:
                    self._until.clear()
                self._until[check] = self._clock() + self.SECONDS


class _Recall:
    """Which checks of a subject have passed lately. has_tasks: see `checks`."""

    def __init__(
        self, passed: Passed, subject: Subject, stores: OffsetStores, has_tasks: Callable[[int], bool]
    ) -> None:
        self._passed = passed
        self._subject = subject
        self._basis = _basis(subject, stores)
        self._has_tasks = has_tasks

    def is_due(self, check: ClusterCheck, login: Login) -> bool:
        if not self._passed.has(self._key(check, login)):
            return True
        return check.about_ids and not self._has_tasks(self._subject.tasks_max)

    def note(self, check: ClusterCheck, login: Login, results: Iterable[Check]) -> None:
        self._passed.note(self._key(check, login), results)

    def _key(self, check: ClusterCheck, login: Login) -> Hashable:
        ids = (self._subject.connector, self._subject.tasks_max) if check.about_ids else None
        return login, check.ask, self._basis, ids


def checks(
    subject: Subject,
    *,
    only_refusing: bool = False,
    passed: Passed | None = None,
    has_tasks: Callable[[int], bool] = lambda _: False,
) -> Iterator[Check]:
    """Yield the results, each as soon as it is known. Takes seconds if brokers do not answer.

    only_refusing: leave out the checks that only warn. passed: leave out those that have passed lately, for the same
    login, topics and settings. has_tasks: whether the connector certainly has so many tasks here. Then their
    transactional ids are its own, whoever holds them, so these checks are left out, too.
    """
    worker = subject.worker
    base = worker.connection(f"ringfence-preflight-{subject.connector}")
    provider_roles: set[str] = {role for role in Role if has_placeholder(_overrides(role, subject.config))}
    known_config = {key: value for key, value in subject.config.items() if not has_placeholder(value)}
    try:
        producer = connection_of(Role.PRODUCER, base, worker.settings, known_config)
        overrides = producer_overrides(base, worker.settings, known_config, subject.timeout_ms)
        topic, settings = worker.offsets_topic, worker.settings
        stores = stores_of(base, topic, settings, known_config, transactional=subject.transactional)
    except Invalid as error:
        remedy = "Correct the settings: nothing else can be checked before."
        closed = isinstance(error.__cause__, EgressDenied)  # validation reports the other errors
        key = "producer.override.bootstrap.servers" if closed else ""
        yield Check("client settings", Result.FAILED, str(error), remedy, key, decides=closed)
        return
    passed = passed or Passed()
    if Role.PRODUCER not in provider_roles and subject.transactional:
        settings_key = (login_of(producer), frozenset(overrides.items()), subject.timeout_ms)
        if not passed.has(settings_key):
            finding = _settings(producer, overrides, subject.timeout_ms)
            passed.note(settings_key, [finding])
            yield finding
    connections = {
        Principal.WORKER: base,
        Principal.PRODUCER: producer,
        Principal.CONSUMER: stores.effective.reading,
        Principal.ADMIN: stores.admin,
    }
    # The login for that cluster's limits: the worker's principal is more likely to be permitted than a producer's.
    nearest = Principal.WORKER if servers(producer.bootstrap) == servers(base.bootstrap) else Principal.PRODUCER
    # Usually all principals have one login: it is waited for once, and asked once.
    silent: dict[Login, FencingError] = {}
    answers: dict[Login, Answers] = {}
    recall = _Recall(passed, subject, stores, has_tasks)
    for principal, connection in connections.items():
        if principal in provider_roles:
            text = f"Settings of the {principal} come from a configuration provider, and only tasks read them."
            yield Check(f"{principal} connection", Result.UNKNOWN, text, "Compare with the table in the documentation.")
            continue
        login = login_of(connection)
        due = [
            check
            for check in CHECKS
            if (check.principal or nearest) is principal
            and (check.may_refuse(subject) or not only_refusing)
            and recall.is_due(check, login)
        ]
        if not due:
            continue
        try:
            if login in silent:
                raise silent[login]
            with PROBERS.lease(connection) as prober, prober.remembering(answers.setdefault(login, {})):
                for check in due:
                    results = list(check.ask(prober, subject, stores))
                    recall.note(check, login, results)
                    yield from results
        except FencingError as error:
            silent[login] = error
            yield _unknown_check(principal, error, subject.config)
    yield from check_share_group(subject.config, worker)


def _basis(subject: Subject, stores: OffsetStores) -> Hashable:
    """Return what the checks depend on that are not about transactional ids."""
    own = stores.own.name if stores.own is not None else ""
    places = subject.topic, own, stores.effective.name, stores.worker.name
    modes = subject.transactional, requires_exactly_once(subject.config)
    return places, modes, subject.timeout_ms, subject.boundaries, frozenset(subject.producer_settings.items())


def _overrides(role: str, config: Mapping[str, str]) -> str:
    return " ".join(value for key, value in config.items() if key.startswith(f"{role}.override."))


def _unknown_check(principal: str, error: FencingError, config: Mapping[str, str]) -> Check:
    refused = error.code == _LOGIN_REFUSED
    own = [key for key in sorted(config) if key.startswith(f"{principal}.override.sasl.")]
    remedy = f"Check the {principal}'s address, security.protocol and credentials."
    result = Result.FAILED if refused else Result.UNKNOWN
    return Check(f"{principal} connection", result, str(error), remedy, own[0] if own else "", decides=bool(own))


def _settings(connection: Connection, overrides: Mapping[str, object], timeout_ms: int) -> Check:
    try:
        Producer(connection, "preflight", transaction_timeout_ms=timeout_ms, overrides=overrides).close()
    except FencingError as error:
        remedy = "Correct the producer. and producer.override. settings."
        text = f"The producer does not accept its settings: {error}"
        return Check("client settings", Result.FAILED, text, remedy, decides=True)
    return Check("client settings", Result.OK, "The producer accepts its settings.")
