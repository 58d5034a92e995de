"""`GET /metrics?names=…`: the same numbers under the names of other exporters."""

import time

import pytest
from django.test import Client, override_settings
from prometheus_client.parser import text_string_to_metric_families

from ringfence.fencing.topics.status import State
from ringfence.metrics.views import SCHEMES
from tests.support.accounts import account, bearer
from tests.support.busy_tables import busy
from tests.support.projections import project
from tests.support.topics import Topic, connector, connector_status, generation, task_status

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
C, T = {"connector": "c"}, {"connector": "c", "task": "0"}


def scraped(query: str) -> Samples:
    response = Client(headers={"host": "localhost"}).get(f"/metrics{query}")
    assert response.status_code == 200
    samples = [
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    ]
    found = {(name, labels): value for name, labels, value in samples}
    assert len(found) == len(samples)  # Prometheus takes no series twice
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def test_strimzis_names_for_the_jmx_exporter() -> None:
    busy(int(time.time() * 1000))
    found = scraped("?names=strimzi")
    assert value(found, "kafka_connect_worker_task_count", worker="w1") == 1
    assert value(found, "kafka_connect_worker_connector_running_task_count", **C) == 1
    assert value(found, "kafka_connect_worker_connector_destroyed_task_count", **C) == 0
    assert value(found, "kafka_connect_coordinator_assigned_tasks", worker="w1") == 1
    assert value(found, "kafka_connect_worker_rebalance_rebalancing") == 0
    assert value(found, "kafka_connect_worker_rebalance_completed_rebalances_total") == 3
    assert value(found, "kafka_connect_connector_status", **C, status="running") == 1
    assert value(found, "kafka_connect_connector_connector_class", **C, connector_class="VerifiableSource") == 1
    assert value(found, "kafka_connect_connector_connector_type", **C, connector_type="source") == 1
    assert value(found, "kafka_connect_connector_connector_version", **C, connector_version="2.1.0") == 1
    assert value(found, "kafka_connect_connector_task_status", **T, status="running") == 1
    assert value(found, "kafka_connect_connector_task_running_ratio", **T) > 0
    assert value(found, "kafka_connect_source_task_source_record_poll_total", **T) == 300
    assert value(found, "kafka_connect_task_error_total_retries", **T) == 3
    assert value(found, "kafka_producer_outgoing_byte_total", clientid="connector-producer-c-0") == 0
    assert value(found, "kafka_connect_version_info", clientid="w1", version="1") == 1
    assert value(found, "kafka_connect_source_task_metrics_source_record_poll_total", **T) == 300  # beside our names
    assert not [
        name for name, _ in found if name in ("kafka_connect_connector_info", "kafka_connect_connector_metrics")
    ]


def test_strimzis_metrics_reporter() -> None:
    busy(int(time.time() * 1000))
    found = scraped("?names=strimzi-reporter")
    assert value(found, "kafka_connect_connector_metrics_status_info", **C, status="running") == 1
    assert value(found, "kafka_connect_connector_metrics_connector_class_info", **C, connector_class="VerifiableSource")
    assert value(found, "kafka_connect_connector_task_metrics_status_info", **T, status="running") == 1
    assert value(found, "kafka_connect_source_task_metrics_source_record_poll", **T) == 300
    assert value(found, "kafka_producer_producer_metrics_outgoing_byte", client_id="connector-producer-c-0") == 0


def test_confluents_names() -> None:
    busy(int(time.time() * 1000))
    found = scraped("?names=confluent")
    for name, text in (("status", "running"), ("connector_type", "source"), ("connector_version", "2.1.0")):
        assert value(found, "kafka_connect_connector_metrics", **C, **{name: text}) == 1
    for name in ("kafka_connect_app", "kafka_connect_app_info"):
        assert value(found, name, client_id="w1", version="1") == 1
        assert value(found, name, client_id="w1", start_time_ms="1") == 1
    assert value(found, "kafka_connect_connect_worker_rebalance_metrics_completed_rebalances") == 3


@pytest.mark.parametrize("query", ["?names=strimzi&names=confluent", "?names=confluent,strimzi-reporter,strimzi"])
def test_several_at_once(query: str) -> None:
    busy(int(time.time() * 1000))
    found = scraped(query)
    assert value(found, "kafka_connect_connector_status", **C, status="running") == 1
    assert value(found, "kafka_connect_connector_metrics", **C, status="running") == 1


def test_without_a_parameter_no_other_name_is_there() -> None:
    busy(int(time.time() * 1000))
    found = {name for name, _ in scraped("")}
    assert found < {name for name, _ in scraped("?names=strimzi")}
    assert not found & {"kafka_connect_connector_status", "kafka_connect_connector_metrics", "kafka_connect_app"}


def test_an_unknown_name_is_refused() -> None:
    answer = Client(headers={"host": "localhost"}).get("/metrics?names=strimzi,nagios")
    assert answer.status_code == 400
    assert (
        answer.json()["message"]
        == "names: 'nagios' is unknown. Use confluent, strimzi, strimzi-reporter, or several of them."
    )


def test_no_name_of_a_connector_makes_a_series_twice() -> None:
    """A scrape with the same series twice is refused as a whole, and with it what belongs to others."""
    config = Topic()
    for name in ("{client_id=", "{clientid=", 'a"}b', "a\\"):
        config.config(connector(name), *generation(name, 1, 1))
    project("config", config)
    for scheme in ("strimzi", "strimzi-reporter", "confluent"):
        samples = scraped(f"?names={scheme},{scheme}")
        assert {dict(labels).get("connector") for _, labels in samples} >= {"{client_id=", "{clientid=", 'a"}b', "a\\"}


def test_no_name_tells_of_a_connector_that_the_account_may_not_see() -> None:
    config, status = Topic(), Topic()
    for name in ("team-a", "secret-b"):
        config.config(connector(name), *generation(name, 1, 1))
        status.status(connector_status(name, State.FAILED), task_status(name, 0, State.FAILED))
    project("config", config)
    project("status", status)
    with override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"]):
        headers = bearer(account("ann", ("viewer", "team-*")))
        shown = Client(headers=headers).get(f"/metrics?names={','.join(SCHEMES)}").content.decode()
        assert Client().get("/metrics?names=strimzi").status_code == 401
    assert 'connector="team-a"' in shown
    assert "secret-b" not in shown


@pytest.mark.parametrize("names", ["x" * 5000, "strimzi," * 2000, "strimzi\x00", "<script>", "é"])
def test_names_of_any_length_cost_nothing(names: str) -> None:
    answer = Client(headers={"host": "localhost"}).get("/metrics", {"names": names})
    assert answer.status_code == (200 if names.startswith("strimzi,") else 400)
    assert "<script>" not in answer.content.decode() or answer["content-type"] == "application/json"
