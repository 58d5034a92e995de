"""What preflight says of a snapshot that is one transaction, and of a slot that an interrupted one has left; pure."""

from ringfence.engine.preflight import client_overrides
from ringfence.engine.preflight.broker_checks import check_timeout
from ringfence.engine.preflight.other_workers import check_slot
from ringfence.engine.preflight.subject import Result
from ringfence.worker_config import WorkerConfig

ON = {"snapshot.transaction": "true"}


def test_a_broker_that_allows_too_little_refuses_it_up_front() -> None:
    found = check_timeout("600000", 900_000, 900_000)
    assert found.refuses
    assert found.key == "snapshot.transaction.timeout.ms"
    assert "raise the broker's transaction.max.timeout.ms" in found.remedy
    assert check_timeout("900000", 900_000, 900_000).result is Result.OK


def test_the_workers_own_limit_does_so_too() -> None:
    worker = WorkerConfig.from_environment(
        {"CONNECT_BOOTSTRAP_SERVERS": "127.0.0.1:9092", "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled"}
    )
    longer = {**ON, "name": "c", "snapshot.transaction.timeout.ms": "900001"}
    (text,) = client_overrides.errors_of(longer, worker)["snapshot.transaction.timeout.ms"]
    assert "raise the worker's connector.transaction.timeout.max.ms=900000" in text
    assert client_overrides.errors_of({**ON, "name": "c"}, worker) == {}


def test_an_old_slot_is_a_finding_with_the_remedy() -> None:
    left = check_slot("orders", committed=False, config=ON)
    assert left.result is Result.FAILED
    assert left.remedy.startswith("Drop it with SELECT pg_drop_replication_slot('orders')")
    assert check_slot("orders", True, {}).result is Result.OK
    assert check_slot("", None, {}).result is Result.OK
    assert check_slot("orders", None, {}).result is Result.UNKNOWN
    assert check_slot("orders", False, {**ON, "snapshot.transaction.drop.slot": "true"}).result is Result.OK
