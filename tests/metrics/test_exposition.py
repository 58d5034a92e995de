"""`/metrics`: every metric that Kafka Connect has, by its name, and those that only Ringfence has."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ringfence.fencing.topics.status import FAILED, State
from ringfence.metrics.text import Family, Kind, labels, number, render
from ringfence.metrics.views import exposition
from ringfence.projection.models import Connector, Suspicion, Task
from tests.support.busy_tables import busy
from tests.support.projections import project
from tests.support.topics import Topic, connector, connector_status, task_status

SECTION_5 = {
    "source_task_metrics": "source_record_poll_rate source_record_poll_total source_record_write_rate "
    "source_record_write_total poll_batch_max_time_ms poll_batch_avg_time_ms source_record_active_count "
    "source_record_active_count_max source_record_active_count_avg transaction_size_min transaction_size_max "
    "transaction_size_avg",
    "connector_task_metrics": "status running_ratio pause_ratio offset_commit_max_time_ms offset_commit_avg_time_ms "
    "batch_size_max batch_size_avg offset_commit_failure_percentage offset_commit_success_percentage",
    "connector_metrics": "status info",
    "connect_worker_metrics": "connector_count task_count connector_total_task_count connector_running_task_count "
    "connector_paused_task_count connector_failed_task_count connector_unassigned_task_count "
    "connector_restarting_task_count connector_destroyed_task_count "
    "connector_startup_attempts_total connector_startup_success_total connector_startup_failure_total "
    "connector_startup_success_percentage connector_startup_failure_percentage "
    "task_startup_attempts_total task_startup_success_total task_startup_failure_total "
    "task_startup_success_percentage task_startup_failure_percentage",
    "connect_coordinator_metrics": "assigned_connectors assigned_tasks",
    "connect_worker_rebalance_metrics": "epoch completed_rebalances_total time_since_last_rebalance_ms rebalancing",
    "task_error_metrics": "total_record_failures total_record_errors total_records_skipped total_retries "
    "total_errors_logged last_error_timestamp deadletterqueue_produce_requests deadletterqueue_produce_failures",
}
OURS = (
    "task_seconds_since_last_poll task_seconds_since_last_commit task_open_transaction_age_seconds "
    "task_aborted_transactions_total task_committed_transactions_total task_auto_restarts task_auto_restarts_total "
    "task_producers_renewed_total "
    "task_next_restart_timestamp_seconds task_attempt connector_generation connector_fencing connector_health "
    "connector_data_age_seconds "
    "connector_records_total connector_skipped_records_total connector_dead_letters_total "
    "connector_aborted_records_total "
    "connector_fencing_rounds_total connector_fencings_total connector_hanging_transactions_ended_total worker_slots "
    "worker_suspected worker_suspicions "
    "clock_offset_seconds connector_fencing_round_seconds leader_info cluster_problem "
    "http_requests_total http_request_duration_seconds http_requests_in_progress"
)
PROCESS = {
    "kafka_producer_producer_metrics_outgoing_byte_total",
    *(f"process_{name}" for name in ("cpu_seconds_total", "start_time_seconds", "resident_memory_bytes", "open_fds")),
}
EXPECTED = (
    PROCESS
    | {f"kafka_connect_{group}_{name}" for group, names in SECTION_5.items() for name in names.split()}
    | {f"ringfence_{name}" for name in OURS.split()}
)
T = {"connector": "c", "task": "0"}


def scraped(client: Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, by name and labels."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(response.content.decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture
def client() -> Client:
    return Client(headers={"host": "localhost"})


def test_the_exposition_parses_and_has_every_metric(client: Client) -> None:
    busy(int(time.time() * 1000))
    samples = scraped(client)
    histogram = "ringfence_http_request_duration_seconds"  # no request has come over ASGI here
    names = {
        name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        for name, _ in samples
        if histogram in name
    }
    shown = {name for name, _ in samples if histogram not in name} | names
    assert shown | {histogram} == EXPECTED
    assert 4 <= samples["ringfence_connector_data_age_seconds", (("connector", "c"),)] < 60


def test_every_metric_says_what_it_means_and_when_it_is_bad(client: Client) -> None:
    text = client.get("/metrics").content.decode()
    helps = dict(line[7:].split(" ", 1) for line in text.splitlines() if line.startswith("# HELP "))
    assert set(helps) == EXPECTED
    silent = {name for name, said in helps.items() if "Bad when" not in said}
    neutral = (
        "size_m",
        "info",
        "skipped",
        "slots",
        "coordinator",
        "epoch",
        "process_",
        "worker_metrics_connector_count",
    )
    assert silent <= {name for name in EXPECTED if any(part in name for part in neutral)}
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    missing = [name for name in sorted(EXPECTED) if f"`{name}`" not in page]
    assert missing == []


def test_every_metric_has_its_help_and_its_type_before_its_samples(client: Client) -> None:
    busy(int(time.time() * 1000))
    lines = client.get("/metrics").content.decode().splitlines()
    kinds: dict[str, str] = {}
    for place, line in enumerate(lines):
        if line.startswith("# TYPE "):
            _, _, name, kinds[name] = line.split(" ")
            assert lines[place - 1].startswith(f"# HELP {name} ")
        elif not line.startswith("#"):
            name = line.partition(" ")[0].partition("{")[0]
            assert name in kinds or kinds[re.sub("_(bucket|sum|count)$", "", name)] == "histogram"
    assert set(kinds) == EXPECTED
    assert set(kinds.values()) == {"counter", "gauge", "histogram", "untyped"}


def test_a_connector_whose_instance_never_ran_has_no_version(client: Client) -> None:
    config = Topic()
    config.config(connector("c", **{"connector.plugin.version": "9"}))
    project("config", config)
    (labelled,) = [dict(labels) for name, labels in scraped(client) if name == "kafka_connect_connector_metrics_info"]
    assert labelled["connector_version"] == "unknown"  # what is asked for is not what runs


def test_the_numbers_are_those_of_the_newest_report(client: Client) -> None:
    busy(int(time.time() * 1000))
    found = scraped(client)

    def value(name: str, **named: str) -> float:
        return found[name, tuple(sorted((named or T).items()))]

    source, task = "kafka_connect_source_task_metrics_", "kafka_connect_connector_task_metrics_"
    assert value(source + "source_record_write_total") == 150
    assert value(source + "source_record_poll_total") == 300
    assert value(source + "source_record_write_rate") == 50
    assert value(source + "source_record_poll_rate") == 100
    assert [value(f"{source}transaction_size_{of}") for of in ("min", "max", "avg")] == [2, 8, 5]
    assert value(source + "source_record_active_count") == 5
    assert value(task + "offset_commit_failure_percentage") == 0.25
    assert value(task + "offset_commit_success_percentage") == 0.75
    assert value(task + "running_ratio") == pytest.approx(6 / 9, abs=0.1)
    assert value(task + "status", **T, status="running") == 1
    assert value("ringfence_task_seconds_since_last_commit") == pytest.approx(3, abs=2)
    assert value("ringfence_task_open_transaction_age_seconds") == pytest.approx(1, abs=2)
    assert value("ringfence_task_aborted_transactions_total") == 2
    assert value("ringfence_task_producers_renewed_total") == 6
    assert value("ringfence_connector_generation", connector="c") == 2
    assert value("ringfence_connector_fencings_total", connector="c") == 1
    assert value("kafka_connect_connect_worker_metrics_task_startup_success_total", worker="w1") == 1
    assert value("kafka_connect_connect_worker_metrics_connector_running_task_count", connector="c") == 1
    named = {"connector_class": "VerifiableSource", "connector_type": "source", "connector_version": "2.1.0"}
    assert value("kafka_connect_connector_metrics_info", connector="c", **named) == 1


def test_what_is_old_is_not_shown_as_if_it_were_now(client: Client) -> None:
    busy(int(time.time() * 1000) - 3_600_000)
    found = scraped(client)
    labelled = tuple(sorted(T.items()))
    assert ("kafka_connect_source_task_metrics_poll_batch_max_time_ms", labelled) not in found
    assert found["kafka_connect_source_task_metrics_source_record_write_rate", labelled] == 0
    assert found["kafka_connect_source_task_metrics_source_record_write_total", labelled] == 150
    assert found["kafka_connect_connector_task_metrics_running_ratio", labelled] > 0.99  # it runs on, and idles


def test_a_failed_task_shows_its_next_restart(client: Client) -> None:
    busy(int(time.time() * 1000))
    status = Topic()
    status.records = [*status.status(*[connector_status("c", State.RUNNING)] * 4)]
    failed = task_status("c", 0, State.FAILED, generation=2, trace="x")
    failed = replace(failed, ended=True, why=FAILED, restarts=3, next_ms=90_000)
    status.status(failed)
    project("status", status)
    shown = scraped(client)
    labelled = tuple(sorted(T.items()))
    assert shown["ringfence_task_next_restart_timestamp_seconds", labelled] == 90
    assert shown["ringfence_task_auto_restarts", labelled] == 3
    assert shown["ringfence_task_open_transaction_age_seconds", labelled] == 0


@pytest.mark.parametrize(("trust", "suspected"), [("suspected", 1), ("calming", 0)])
def test_a_suspicion_is_of_one_process(client: Client, trust: str, suspected: float) -> None:
    busy(int(time.time() * 1000))
    labelled = (("worker", "w1"),)

    def values() -> list[float]:
        shown = scraped(client)
        return [shown[f"ringfence_worker_{name}", labelled] for name in ("suspected", "suspicions")]

    assert values() == [0, 0]
    Suspicion.objects.create(worker="w1", incarnation="i", trust=trust, times=2)
    assert values() == [suspected, 2]
    Suspicion.objects.update(incarnation="an-earlier-one")
    assert values() == [0, 0]


def test_a_thousand_connectors_cost_the_same_queries_and_little_time() -> None:
    busy(int(time.time() * 1000))
    now_ms = int(time.time() * 1000)
    with CaptureQueriesContext(connection) as few:
        exposition(now_ms)
    task = Task.objects.get()
    names = [f"c{n}" for n in range(1000)]
    Connector.objects.bulk_create(Connector(name=name, known=True, state="RUNNING", config="{}") for name in names)
    Task.objects.bulk_create(
        [
            Task(connector=n, number=0, known=True, state="RUNNING", measures=task.measures, totals=task.totals)
            for n in names
        ],
        batch_size=100,
    )
    start = time.process_time()
    with CaptureQueriesContext(connection) as many:
        body = exposition(now_ms)
    assert len(many) == len(few) == 8
    assert body.count("source_record_write_total{") == 1001
    assert time.process_time() - start < 3


def test_only_reading_is_possible(client: Client) -> None:
    assert client.post("/metrics").status_code == 405
    assert client.get("/metrics/").status_code == 200


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_is_escaped(name: str) -> None:
    family = Family("m", Kind.GAUGE, "A \\ and a\nnew line.", "")
    text = render([(family, [(labels({"connector": name, "task": 0}), 1.0)])])
    (parsed,) = text_string_to_metric_families(text)
    assert parsed.documentation == "A \\ and a\nnew line."
    assert parsed.samples[0].labels == {"connector": name, "task": "0"}


def test_numbers_are_short_and_exact() -> None:
    assert [number(value) for value in (0, 1.0, 0.25, 12_345_678_901_234, True)] == [
        "0",
        "1",
        "0.25",
        "12345678901234",
        "1",
    ]
