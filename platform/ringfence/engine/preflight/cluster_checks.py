"""Preflight's checks of the clusters, by the principals in the KIP's tables of permissions.

None has a side effect on a running task (fencing/kafka/permission_probes.py). If a check gets no answer, for example
because this principal may not ask, its result is `unknown`.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ringfence.connectors.sdk.egress import EgressDenied
from ringfence.connectors.sdk.kafka_settings.java_names import Role, servers
from ringfence.engine.preflight import broker_checks, share_checks
from ringfence.engine.preflight.client_overrides import has_placeholder
from ringfence.engine.preflight.other_workers import requires_exactly_once
from ringfence.engine.preflight.subject import PROBERS, Ask, Check, Result, Subject
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.kafka.client_pool import Login, login_of
from ringfence.fencing.kafka.client_settings import connection_of, producer_overrides
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.permission_probes import Answers
from ringfence.fencing.offsets.stores import OffsetStores, stores_of
from ringfence.fencing.transactions.producer import Producer

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
    change.
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


def checks(subject: Subject, *, only_refusing: bool = False, passed: Passed | None = None) -> Iterator[Check]:
    """Yield the results, each as soon as it is known. Takes seconds if brokers do not answer.

    only_refusing: leave out the checks that only warn. passed: leave out those that have passed lately, for the same
    login, topics and settings.
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
    basis = _basis(subject, stores)
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
            and (check.about_ids or not passed.has((login, check.ask, basis)))
        ]
        if not due:
            continue
        try:
            if login in silent:
                raise silent[login]
            with PROBERS.lease(connection) as prober, prober.remembering(answers.setdefault(login, {})):
                for check in due:
                    results = list(check.ask(prober, subject, stores))
                    passed.note((login, check.ask, basis), results)
                    yield from results
        except FencingError as error:
            silent[login] = error
            yield _unknown_check(principal, error, subject.config)
    yield from share_checks.checks(subject.config, worker)


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
