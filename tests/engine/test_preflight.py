"""Preflight against a real broker with Kafka's own authorizer: what is denied is found, and nobody is disturbed."""

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from operator import ge
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    ResourceType,
)

from ringfence import __version__
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.engine.platform_topics import topics_of
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.errors import UnknownPlugin
from ringfence.engine.preflight import cluster_checks
from ringfence.engine.preflight.broker_checks import check_protocol
from ringfence.engine.preflight.report import PreflightInput, checks, examine
from ringfence.engine.preflight.subject import Check, Result, Subject
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.kafka.connection import connection_of
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.source_offsets import read_offsets
from ringfence.fencing.task.clients import reading_connection, transactional_producer
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.transactions.producer import Producer
from ringfence.worker_config import WorkerConfig
from tests.support.broker import login
from tests.support.guarded_broker import (
    ALLOW,
    CREATE,
    DATA,
    DENY,
    DESCRIBE,
    GROUP,
    IDS,
    OFFSETS,
    READ,
    TOPIC,
    WRITE,
    Acl,
    grant,
)
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


class Found(dict[str, Check]):
    """The checks by their names. In place of a missing one, another may tell why: a broker that was too slow, say."""

    def __missing__(self, name: str) -> Check:
        raise AssertionError(f"there is no {name!r}: {[(check.name, check.message) for check in self.values()]}")


def ask(worker: WorkerConfig, *, known: int | None = 1, user: str = "", **config: str) -> dict[str, Check]:
    settings = {"name": "c", "topic": DATA, **{key.replace("_", "."): value for key, value in config.items()}}
    if user:
        settings |= {f"{role}.override.sasl.jaas.config": login(user) for role in Role}
    found = checks(PreflightInput(settings, "supported", False, lambda _: known, {}), worker)
    return Found((check.name, check) for check in found)


ID = "g-c-0"
ALL: dict[str, list[Acl]] = {
    "producer Write TransactionalId": [(IDS, ID, WRITE, ALLOW)],
    "producer Describe TransactionalId": [(IDS, ID, DESCRIBE, ALLOW)],
    "producer Write Topic offsets": [(TOPIC, OFFSETS, WRITE, ALLOW)],
    "consumer Read Topic offsets": [(TOPIC, OFFSETS, READ, ALLOW)],
    "admin Describe Topic offsets": [(TOPIC, OFFSETS, DESCRIBE, ALLOW)],
    "producer Write Topic data": [(TOPIC, DATA, WRITE, ALLOW)],
    "producer Write Topic fresh": [(TOPIC, "fresh", WRITE, ALLOW)],
    "producer Create Topic fresh": [(TOPIC, "fresh", CREATE, ALLOW)],
}
TWINS = {"producer Write TransactionalId", "producer Describe TransactionalId"}
"""The admin principal needs these, too."""


def test_all_is_ok_for_the_super_user_and_shows_names_only(worker: WorkerConfig) -> None:
    def asked() -> tuple[dict[str, Check], Check]:
        """Again where a broker that has just started was too slow."""
        found = ask(worker, topic="fresh")
        kept_out = found.pop("producer kept out of the config topic")
        assert [check for check in found.values() if check.result is not Result.OK] == []
        return found, kept_out

    found, kept_out = eventually(asked, 20, pause=0.3)
    # The one thing that it may and should not; a warning, as validation goes.
    assert (kept_out.result, kept_out.refuses) == (Result.FAILED, False)
    assert "producer.sasl.jaas.config" in kept_out.remedy
    assert "worker Write TransactionalId" in found
    assert "producer Create Topic fresh" in found
    assert found["transaction timeout"].message == "60000 ms; the broker allows up to 120000 ms."
    says = "Transactions v2 (transaction.version 2): late requests are refused by the broker."
    assert found["transaction protocol"].message == says


def test_what_older_transactions_and_slow_leaders_cost_is_said() -> None:
    old = check_protocol(1, None)
    assert (old.result, old.refuses) == (Result.OK, False)
    assert "transaction.version is 1: one epoch serves many transactions" in old.message
    assert "set transaction.version to 2" in old.remedy
    slow = check_protocol(2, "20")
    assert "add.partitions.to.txn.retry.backoff.ms is 20: for so many ms a partition leader keeps" in slow.message
    assert "set add.partitions.to.txn.retry.backoff.ms=1 on the brokers" in slow.remedy
    assert check_protocol(2, None) == check_protocol(2, "1")


@pytest.mark.parametrize("denied", ALL)
def test_exactly_what_is_denied_is_reported(worker: WorkerConfig, users: Iterator[str], denied: str) -> None:
    user = next(users)
    topic = "fresh" if "fresh" in denied else DATA
    acls = [acl for name, granted in ALL.items() for acl in granted if name != denied]
    type_, name, operation, _ = ALL[denied][0]
    if operation is DESCRIBE:  # else implied by Write and Read
        acls.append((type_, name, DESCRIBE, DENY))
    grant(worker, user, *acls)
    expected = {denied} | ({denied.replace("producer", "admin")} if denied in TWINS else set())
    if denied == "admin Describe Topic offsets":
        expected |= {"consumer Read Topic offsets"}  # without Describe nobody learns what else he may

    def failed() -> bool:
        found = ask(worker, topic=topic, user=user)
        return {name for name, check in found.items() if check.result is Result.FAILED} == expected

    eventually(failed, pause=0.3)
    check = ask(worker, topic=topic, user=user)[denied]
    assert name in check.message
    assert operation.name.capitalize() in check.remedy
    assert check.refuses is (operation is not CREATE)  # a topic may still be created by somebody else


def test_a_user_without_any_right_learns_all_of_it(worker: WorkerConfig, users: Iterator[str]) -> None:
    found = ask(worker, topic=DATA, user=next(users))
    failed = {name for name, check in found.items() if check.result is Result.FAILED}
    rows = {name for name in ALL if "fresh" not in name}
    assert failed | {"producer Write Topic offsets", "producer Write Topic data"} >= rows
    assert {check.result for check in found.values()} == {Result.OK, Result.FAILED, Result.UNKNOWN}


@pytest.mark.parametrize("support", ["requested", "required"])
def test_a_validation_asks_for_less_and_refuses_the_same(
    worker: WorkerConfig, users: Iterator[str], monkeypatch: pytest.MonkeyPatch, support: str
) -> None:
    """It leaves out the checks that only warn, and asks no broker the same twice."""
    asked: list[str] = []
    run = Prober._run

    def count(self: Prober, work: Awaitable[Any]) -> Any:
        asked.append(sys._getframe(1).f_code.co_name)
        return run(self, work)

    monkeypatch.setattr(Prober, "_run", count)
    settings = {"name": "c", "topic": DATA, "exactly.once.support": support, "offsets.storage.topic": "not-compacted"}
    refused: dict[str, set[tuple[str, str]]] = {}
    for user in ("", next(users)):
        overrides = {f"{role}.override.sasl.jaas.config": login(user) for role in Role} if user else {}
        subject = Subject(settings | overrides, worker, lambda _: 1)
        asked.clear()
        every = {(check.name, check.message) for check in cluster_checks.checks(subject) if check.refuses}
        before = len(asked)
        few = list(cluster_checks.checks(subject, only_refusing=True))
        refused[user] = every
        assert {(check.name, check.message) for check in few if check.refuses} == every
        assert before > len(asked) - before, "less is asked"
    assert {name for name, _ in refused[""]} == {"offsets topic compaction"}
    assert "producer Write TransactionalId" in {name for name, _ in refused[user]}
    asked.clear()
    plain = Subject({"name": "c", "topic": DATA, "exactly.once.support": support}, worker, lambda _: 1)
    list(cluster_checks.checks(plain, only_refusing=True))
    assert asked.count("topic") <= 3, "the offsets topic, the connector's and the config topic, each once"
    assert asked.count("_ask_about_ids") == 1, "permissions, and the holders at the coordinator that is known"
    assert asked.count("write_topics") == 1
    made: list[str] = []
    new: Callable[..., Producer] = Producer

    def note(*arguments: Any, **options: Any) -> Producer:
        made.append("producer")
        return new(*arguments, **options)

    monkeypatch.setattr(cluster_checks, "Producer", note)
    passed = cluster_checks.Passed()
    for _ in range(2):
        list(cluster_checks.checks(plain, only_refusing=True, passed=passed))
    assert made == ["producer"], "its settings have passed"
    for wanted, known, again in (("1", 1, False), ("1", 0, True), ("2", 1, True)):
        more = Subject({**plain.config, "tasks.max": wanted}, worker, lambda _: 1)
        asked.clear()
        list(cluster_checks.checks(more, only_refusing=True, passed=passed, has_tasks=partial(ge, known)))
        assert ("_ask_about_ids" in asked) is again, "only ids that may be others' are asked about again"


def test_who_may_end_hanging_transactions_is_found_out(worker: WorkerConfig, users: Iterator[str]) -> None:
    """The connector's admin client or the worker's principal; nothing is written to find out."""
    user, weak = next(users), next(users)
    assert ask(worker, user=user)["hanging transactions"].result is Result.OK, "the worker may"
    alone = WorkerConfig({**worker.settings, "sasl.jaas.config": login(weak)})
    grant(worker, weak, (TOPIC, OFFSETS, READ, ALLOW), (TOPIC, DATA, READ, ALLOW))

    def told(words: str) -> bool:
        return words in ask(alone, user=user)["hanging transactions"].message

    eventually(lambda: told("the worker's principal has no ClusterAction or Alter"), pause=0.3)
    found = ask(alone, user=user)["hanging transactions"]
    assert (found.result, found.refuses) == (Result.FAILED, False)
    assert "the admin's principal has no Read on topic offsets" in found.message
    assert "Read on data, offsets, and ClusterAction or Alter on the Cluster" in found.remedy
    grant(worker, weak, (ResourceType.BROKER, "kafka-cluster", AclOperation.CLUSTER_ACTION, ALLOW))
    eventually(lambda: told("The worker's principal may find and end"), pause=0.3)


def test_a_worker_that_may_not_ask_gets_unknown_not_ok(worker: WorkerConfig, users: Iterator[str]) -> None:
    weak = WorkerConfig({**worker.settings, "sasl.jaas.config": login(next(users))})
    found = ask(weak)
    assert found["worker Write TransactionalId"].result is Result.FAILED
    assert found["worker Describe TransactionalId"].result is Result.FAILED
    assert found["transaction timeout"].result is Result.UNKNOWN
    assert found["offsets topic compaction"].result is Result.UNKNOWN


def test_a_refused_login_is_reported_without_the_password(worker: WorkerConfig) -> None:
    found = ask(worker, producer_override_sasl_jaas_config=login("root", "s3cret"))
    assert found["producer connection"].result is Result.FAILED
    assert "consumer Read Topic offsets" in found
    assert "s3cret" not in repr(found)


def test_a_timeout_beyond_the_brokers_and_an_offsets_topic_that_forgets(worker: WorkerConfig) -> None:
    forgetful = WorkerConfig({**worker.settings, "offset.storage.topic": "not-compacted"})
    found = ask(forgetful, transaction_boundary="interval", transaction_boundary_interval_ms="50000")
    assert found["transaction timeout"].refuses
    assert "150000 ms" in found["transaction timeout"].message
    assert found["offsets topic compaction"].refuses


def test_a_topic_that_refuses_the_producers_batches_is_found(worker: WorkerConfig) -> None:
    found = ask(worker, topic="narrow")["batches for topic narrow"]
    assert found.result is Result.FAILED
    assert not found.refuses
    assert "300,000 bytes" in found.message
    assert "524,288 bytes" in found.message
    assert "producer.override.batch.size=300000" in found.remedy
    fits = ask(worker, topic="narrow", producer_override_batch_size="300000")
    assert fits["batches for topic narrow"].result is Result.OK
    assert ask(worker)[f"batches for topic {DATA}"].result is Result.OK


def test_a_connectors_own_offsets_topic_is_the_one_that_is_checked(worker: WorkerConfig, users: Iterator[str]) -> None:
    own = ask(worker, offsets_storage_topic="not-compacted")
    assert own["offsets topic compaction"].refuses
    assert "producer Write Topic not-compacted" in own
    new = ask(worker, offsets_storage_topic="new-offsets")
    assert new["offsets topic compaction"].message == "new-offsets does not exist yet: it will be created, compacted."
    assert new["admin Create Topic new-offsets"].result is Result.OK
    user = next(users)
    grant(worker, user, (TOPIC, "new-offsets", DESCRIBE, ALLOW))

    def denied() -> bool:
        found = ask(worker, user=user, offsets_storage_topic="new-offsets")
        return (
            found["admin Describe Topic new-offsets"].result is Result.OK
            and found["admin Create Topic new-offsets"].refuses
        )

    eventually(denied, pause=0.3)


def test_credentials_that_a_provider_holds_are_unknown_and_refuse_nothing(worker: WorkerConfig) -> None:
    found = ask(worker, producer_override_sasl_jaas_config="${file:/secrets:login}")
    assert found["producer connection"].result is Result.UNKNOWN
    assert [check.name for check in found.values() if check.refuses] == []
    assert "consumer Read Topic offsets" in found


def test_settings_that_do_not_fit_together_are_found(worker: WorkerConfig) -> None:
    found = ask(worker, producer_override_ssl_ca_pem="junk", producer_override_security_protocol="SSL")
    assert found["client settings"].result is Result.FAILED


@pytest.mark.parametrize(("tasks", "told"), [(200, "the connector's transactional ids"), (201, "the first 200 tasks")])
def test_the_ids_of_many_tasks_are_not_all_looked_at(
    worker: WorkerConfig, unique: Callable[[str], str], tasks: int, told: str
) -> None:
    found = ask(worker, name=unique("c"), tasks_max=str(tasks))["transactional ids"]
    assert found.result is Result.OK
    assert told in found.message


@pytest.mark.parametrize("begin", [False, True])
def test_a_running_producer_is_not_disturbed(
    worker: WorkerConfig, unique: Callable[[str], str], *, begin: bool
) -> None:
    name = unique("c")
    producer = Producer(worker.connection(), f"{GROUP}-{name}-0")
    producer.init(Deadline.after(30))
    before = producer.epoch
    if begin:
        producer.begin()
        producer.produce(DATA, b"1")
        producer.flush(10)
    stranger = ask(worker, known=0, name=name)["transactional ids"]
    own = ask(worker, known=1, name=name)["transactional ids"]
    assert stranger.refuses is begin
    assert (stranger.result, own.result) == (Result.FAILED if begin else Result.UNKNOWN, Result.OK)
    for number in range(2):
        if number or not begin:
            producer.begin()
            producer.produce(DATA, b"2")
        producer.commit(Deadline.after(30))
        assert not producer.spent
    with Prober(worker.connection()) as prober:
        _, holders = prober.describe_ids([f"{GROUP}-{name}-0"])
    assert holders[f"{GROUP}-{name}-0"].state in ("PrepareCommit", "CompleteCommit")  # markers follow the answer
    assert (holders[f"{GROUP}-{name}-0"].producer_id, holders[f"{GROUP}-{name}-0"].epoch) == (
        producer.producer_id,
        before + 2,
    ), "each of the two transactions has taken an epoch (KIP-890), and nobody else has"
    producer.close()


def test_probing_leaves_no_topic_behind(worker: WorkerConfig) -> None:
    ask(worker, topic="never-made")
    with Prober(worker.connection()) as prober:
        assert prober.topic("never-made").exists is False


def spec_of(worker: WorkerConfig, name: str, **overrides: str) -> TaskSpec:
    config = {key.replace("_", "."): value for key, value in overrides.items()}
    task = TaskId(ConnectorName(name), 0)
    placement = Placement(WorkerId("w"), Incarnation("i"), 1, Generation(1))
    return TaskSpec(worker.connection(), GROUP, topics_of(worker), task, placement, "", config, {}, worker.settings)


def test_the_overrides_principals_are_the_ones_that_write_read_and_fence(
    worker: WorkerConfig, users: Iterator[str], unique: Callable[[str], str]
) -> None:
    user, name = next(users), unique("c")
    own = {f"{role}_override_sasl_jaas_config": login(user) for role in Role}
    spec = spec_of(worker, name, producer_override_compression_type="lz4", **own)
    admin = connection_of(Role.ADMIN, worker.connection(), worker.settings, spec.connector_config)

    denied = transactional_producer(spec, 60_000)
    with pytest.raises(Fatal, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        denied.init(Deadline.after(20))
    with pytest.raises(FencingError):
        read_offsets(reading_connection(spec), OFFSETS, spec.task.connector, Deadline.after(3))
    with pytest.raises(Fatal, match="Grant the principal of the connector's admin client"), Fencer(admin) as fencer:
        fencer.fence([spec.transactional_id], Deadline.after(20))

    grant(worker, user, (IDS, spec.transactional_id, DESCRIBE, ALLOW))

    def named() -> bool:  # it finds the coordinator now, and that one refuses
        with pytest.raises(FencingError) as refused, Fencer(admin) as fencer:
            fencer.fence([spec.transactional_id], Deadline.after(20))
        said = f"Fencing {spec.transactional_id}: TransactionalIdAuthorizationFailedError"
        return isinstance(refused.value, Fatal) and said in str(refused.value)

    eventually(named, pause=0.2)
    grant(worker, user, (IDS, spec.transactional_id, WRITE, ALLOW), (TOPIC, OFFSETS, READ, ALLOW))
    grant(worker, user, (TOPIC, DATA, WRITE, ALLOW))
    eventually(lambda: ask(worker, name=name, user=user)["producer Write Topic data"].result is Result.OK, pause=0.2)
    granted = transactional_producer(spec, 60_000)
    granted.init(Deadline.after(20))
    granted.begin()
    granted.produce(DATA, b"x")
    granted.commit(Deadline.after(20))
    read_offsets(reading_connection(spec), OFFSETS, spec.task.connector, Deadline.after(20))
    with Fencer(admin) as fencer:
        (fenced,) = fencer.fence([spec.transactional_id], Deadline.after(20))
    assert fenced.epoch > granted.epoch
    granted.close()
    with suppress(Fatal):  # a producer that was denied says so again
        denied.close()


def test_the_connector_itself_is_asked_in_its_own_process(worker: WorkerConfig) -> None:
    topic = TopicSpec(worker.config_topic, config={"cleanup.policy": "compact"})
    create_topics(worker.connection(), [topic], Deadline.after(30))
    config = {"name": "v", "connector.class": "VerifiableSource", "topic": DATA, "tasks.max": "2"}
    host = PluginHost(call_seconds=PATIENCE)
    try:
        found = {check.name: check for check in examine(config, worker, host, Deadline.after(30))}
        with pytest.raises(UnknownPlugin):
            examine({**config, "connector.class": "Nonsense"}, worker, host, Deadline.after(30))
        ignored = {**config, "consumer.override.isolation.level": "read_uncommitted"}
        others = {"w1": {host.class_of("VerifiableSource") or "": [__version__]}, "w2": {}}
        looked = examine(ignored, worker, host, Deadline.after(30), versions=lambda: others)
        again = {check.name: check for check in looked}
    finally:
        host.close()
    assert found["exactly.once.support"].result is Result.OK
    assert "and 1 more" in found["producer Write TransactionalId"].message
    open_to_it = {name for name, check in found.items() if check.result is not Result.OK}
    assert open_to_it == {"producer kept out of the config topic"}
    assert "is ignored" in again["ignored setting"].message
    assert again["plugin versions"].message.startswith("w2 has no "), "and w1 has it, under its class"
