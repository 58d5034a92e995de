"""What validation refuses because a broker or another worker says so, and that it never waits for those that do not."""

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from ringfence.engine.leader.members import worker_modes
from ringfence.engine.plugins import PluginHost
from ringfence.engine.plugins.calls import ValidateConfig
from ringfence.engine.preflight import client_overrides, validation
from ringfence.engine.preflight.broker_checks import check_idempotence
from ringfence.engine.preflight.other_workers import check_modes
from ringfence.engine.preflight.report import PreflightInput, checks
from ringfence.engine.preflight.subject import Check, Result
from ringfence.engine.preflight.validation import Modes, ValidationErrors, ValidationRun, add_to
from ringfence.engine.queries.hanging_transactions import ids_of
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.kafka.membership import GroupMembership
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.stores import COMPACTED_SOON
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.status import StatusState, WorkerRecord
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from ringfence.worker_config import WorkerConfig
from tests.support.broker import Broker
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually

CONFIG = {"name": "c", "connector.class": "VerifiableSource", "topic": "data"}
REQUIRED = {**CONFIG, "exactly.once.support": "required"}
MIXED = {"w1": "enabled", "w2": "preparing", "w3": "disabled"}
BOTH = {"w1": "enabled", "w2": "enabled"}


def worker_at(bootstrap: str, group: str = "g", **settings: str) -> WorkerConfig:
    environment = {"CONNECT_BOOTSTRAP_SERVERS": bootstrap, "CONNECT_GROUP_ID": group, **settings}
    return WorkerConfig.from_environment({"CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled", **environment})


@pytest.fixture
def hole() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def asked(worker: WorkerConfig, modes: Modes, config: Mapping[str, str], seconds: float) -> list[Check]:
    refusals = ValidationErrors(worker, modes)
    try:
        return refusals.ask(config, Deadline.after(30)).within(seconds)
    finally:
        refusals.close()


def refused(worker: WorkerConfig, config: Mapping[str, str], modes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The validation object, as a worker answers it."""
    host = PluginHost(call_seconds=PATIENCE)
    try:
        found = host.ask(ValidateConfig(config["connector.class"], config))
    finally:
        host.close()
    found = client_overrides.add_to(found, config, worker)
    return add_to(found, asked(worker, lambda _: modes, config, 30))


def errors(validation: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        entry["value"]["name"]: entry["value"]["errors"] for entry in validation["configs"] if entry["value"]["errors"]
    }


@pytest.mark.broker
def test_a_sound_configuration_is_not_refused(broker: Broker, unique: Callable[[str], str]) -> None:
    found = refused(worker_at(broker.bootstrap, unique("g")), {**REQUIRED, "name": unique("c")}, BOTH)
    assert (found["error_count"], errors(found)) == (0, {})


@pytest.mark.broker
def test_a_transaction_longer_than_the_broker_allows_is_an_error_of_its_setting(
    broker: Broker, unique: Callable[[str], str]
) -> None:
    key = "producer.override.transaction.timeout.ms"
    worker = worker_at(broker.bootstrap, unique("g"), CONNECT_CONNECTOR_TRANSACTION_TIMEOUT_MAX_MS="1200000")
    found = refused(worker, {**CONFIG, key: "900001"})
    assert found["error_count"] == 1
    assert "the broker allows 900000 ms. Shorten" in errors(found)[key][0]
    interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "300001"}
    found = refused(worker, {**CONFIG, **interval})  # three intervals
    assert list(errors(found)) == [key]
    assert found["configs"][-1]["definition"]["name"] == key


@pytest.mark.broker
def test_exactly_once_is_required_and_a_worker_lags_behind(broker: Broker, unique: Callable[[str], str]) -> None:
    worker = worker_at(broker.bootstrap, unique("g"))
    (text,) = errors(refused(worker, REQUIRED, {"w1": "enabled", "w2": "preparing"}))["exactly.once.support"]
    assert "w2 (preparing)" in text
    assert "w1" not in text
    assert errors(refused(worker, CONFIG, {"w1": "enabled", "w2": "preparing"})) == {}  # requested
    assert errors(refused(worker, REQUIRED, None)) == {}  # nobody knows


@pytest.mark.broker
def test_the_modes_are_those_of_the_workers_that_live(broker: Broker, unique: Callable[[str], str]) -> None:
    group, topic = unique("g"), unique("configs")
    worker = worker_at(broker.bootstrap, group)
    connection = worker.connection()
    create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
    records = [WorkerRecord(WorkerId(name), Incarnation("i"), mode, 1, "1", 0) for name, mode in MIXED.items()]
    status = StatusState(workers={record.worker: record for record in records})
    seats = [
        GroupMembership(connection, group, topic, f"{name}@i", lambda _: None, lambda: None, session_timeout_ms=6000)
        for name in ("w1", "w2")
    ]

    def modes(limit: Deadline) -> dict[str, str] | None:
        for seat in seats:
            seat.poll(0.05)
        return worker_modes(connection, group, status, limit)

    eventually(lambda: modes(Deadline.after(5)) == {"w1": "enabled", "w2": "preparing"}, 30, "both, and not w3")
    (behind,) = asked(worker, modes, {**REQUIRED, "name": unique("c")}, 30)
    assert "w2 (preparing)" in behind.message
    seats.pop().close()
    eventually(lambda: modes(Deadline.after(5)) == {"w1": "enabled"}, 30, "the second has left")
    assert asked(worker, modes, {**REQUIRED, "name": unique("c")}, 30) == []
    seats.pop().close()
    assert worker_modes(worker_at("127.0.0.1:1").connection(), group, status, Deadline.after(0.5)) is None


@pytest.mark.thorough
@pytest.mark.broker
def test_a_connector_that_writes_to_another_cluster_is_checked_there(
    broker: Broker, own_broker: EmbeddedKafka, unique: Callable[[str], str]
) -> None:
    worker = worker_at(broker.bootstrap, unique("g"), CONNECT_OFFSET_STORAGE_TOPIC=unique("offsets"))
    topic = worker.offsets_topic
    settings = {**COMPACTED_SOON, "cleanup.policy": "delete"}
    create_topics(worker.connection(), [TopicSpec(topic, config=settings)], Deadline.after(30))
    config = {**CONFIG, "name": unique("c"), "producer.override.bootstrap.servers": own_broker.bootstrap}
    question = PreflightInput(config, "supported", False, lambda _: 0, {}, BOTH)
    found = {check.name: check for check in checks(question, worker)}
    # The topic of that name here is not the one that the offsets go to.
    assert found["offsets topic compaction"].message == f"{topic} does not exist yet: it will be created, compacted."
    assert found[f"admin Create Topic {topic}"].result is Result.OK
    assert [check for check in found.values() if check.result is Result.FAILED] == []
    at_home = PreflightInput(CONFIG, "supported", False, lambda _: 0, {}, BOTH)
    assert {check.name for check in checks(at_home, worker) if check.refuses} == {"offsets topic compaction"}


@pytest.mark.broker
@pytest.mark.parametrize("leads", [True, False])
def test_only_a_worker_that_does_not_lead_reads_the_topic_for_the_tasks_that_a_connector_had(
    broker: Broker, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    worker, name, read = worker_at(broker.bootstrap, unique("g")), unique("c"), list[str]()
    producer = Producer(worker.connection(), ids_of(name, 1, worker)[0])
    producer.init(Deadline.after(30))
    producer.close()

    def read_known_tasks(connector: str, *_: object) -> int:
        read.append(connector)
        return 1

    monkeypatch.setattr(validation, "read_known_tasks", read_known_tasks)
    refusals = ValidationErrors(worker, lambda _: BOTH, lambda: (ClusterState() if leads else None, leads))
    try:
        refusals.ask({**REQUIRED, "name": name}, Deadline.after(30)).within(30)
    finally:
        refusals.close()
    assert read == ([] if leads else [name])


@pytest.mark.parametrize("away", [False, True])
def test_brokers_that_do_not_answer_are_not_waited_for_and_refuse_nothing(hole: str, away: bool) -> None:
    worker = worker_at("127.0.0.1:1" if away else hole)
    began = time.monotonic()
    assert asked(worker, lambda _: BOTH, REQUIRED, 0.3) == []
    assert time.monotonic() - began < 10  # the question itself takes up to 30 s


def test_a_mode_is_known_before_the_brokers_have_answered(hole: str) -> None:
    (found,) = asked(worker_at(hole), lambda _: {"w2": "disabled"}, REQUIRED, 5)
    assert "w2 (disabled)" in found.message


def test_a_check_that_breaks_decides_against_nobody(hole: str) -> None:
    def broken(_: Deadline) -> None:
        raise RuntimeError("a bug")

    assert asked(worker_at(hole), broken, REQUIRED, 5) == []


def test_a_configuration_without_a_name_asks_nobody() -> None:
    assert asked(worker_at("127.0.0.1:1"), lambda _: BOTH, {**REQUIRED, "name": " "}, 0) == []
    assert ValidationRun().within(0) == []


def test_warnings_refuse_nothing_and_what_belongs_to_no_setting_is_the_names() -> None:
    warning = Check("ignored setting", Result.FAILED, "It is ignored.", decides=False)
    certain = Check("client settings", Result.FAILED, "They do not fit.", "Mend them.", decides=True)
    unsure = Check("client settings", Result.UNKNOWN, "Perhaps.", decides=True)
    assert [check for check in (warning, certain, unsure) if check.refuses] == [certain]
    validation = {"error_count": 0, "groups": [], "configs": [{"value": {"name": "name", "errors": []}}]}
    assert errors(add_to(validation, [certain])) == {"name": ["They do not fit. Mend them."]}
    assert certain.as_json()["decides"] is True
    assert warning.as_json()["decides"] is False


def test_workers_that_lag_behind_are_named() -> None:
    assert check_modes(BOTH, required=True) is None
    assert check_modes(None, required=True) is None
    many = check_modes({f"w{number}": "disabled" for number in range(9)}, required=False)
    assert many is not None
    assert not many.refuses
    assert many.result is Result.UNKNOWN
    assert "w4 (disabled) and 4 more" in many.message


@pytest.mark.parametrize(
    ("support", "results"), [("supported", ["ok"]), ("unsupported", ["failed"]), ("unknown", ["failed"])]
)
def test_the_three_answers_of_a_connector(hole: str, support: str, results: list[str]) -> None:
    asked_for = {"required": results, "requested": [{"failed": "unknown"}.get(results[0], "ok")]}
    if support == "unsupported":
        asked_for["requested"] = ["failed"]  # it is known, and allowed
    for level, expected in asked_for.items():
        config = {**CONFIG, "exactly.once.support": level, "producer.override.acks": "2"}  # asks no broker
        found = checks(PreflightInput(config, support, False, lambda _: 0, {}, BOTH), worker_at(hole))
        about = [check for check in found if check.name == "exactly.once.support"]
        assert [str(check.result) for check in about] == expected
        assert [check.refuses for check in about] == [level == "required" and support != "supported"]


@pytest.mark.parametrize("defines", [False, True])
def test_a_connector_that_cannot_define_transactions_is_refused_where_it_is_to(hole: str, defines: bool) -> None:
    config = {**CONFIG, "transaction.boundary": "connector", "producer.override.acks": "2"}  # asks no broker
    question = PreflightInput(config, "supported", defines, lambda _: 0, {}, BOTH, "connector")
    found = checks(question, worker_at(hole))
    (about,) = [check for check in found if check.name == "transaction.boundary"]
    assert about.refuses is not defines
    assert "poll or interval" in about.remedy or defines


def test_preflight_tells_the_boundary_that_a_connector_chooses(hole: str) -> None:
    config = {**CONFIG, "producer.override.acks": "2"}  # asks no broker
    question = PreflightInput(config, "supported", True, lambda _: 0, {}, BOTH, "connector")
    (about,) = [check for check in checks(question, worker_at(hole)) if check.name == "transaction.boundary"]
    assert "has chosen to" in about.message


def test_old_brokers_ask_for_one_more_permission() -> None:
    assert check_idempotence((2, 8)) is None
    old = check_idempotence((2, 7))
    assert old is not None
    assert "IdempotentWrite on the Cluster" in old.remedy
