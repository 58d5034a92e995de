"""deploy/prometheus: each alert fires in its fault, after its time, and not before; by Prometheus' own `promtool`.

That the faults really look so is shown by `tests/e2e/test_alert_rules.py`.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.prometheus import find

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
UP = 'up{job="ringfence",instance="a"}'
LEADER = "kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total"
FAILED = "kafka_connect_connect_worker_metrics_connector_failed_task_count"
UNASSIGNED = "kafka_connect_connect_worker_metrics_connector_unassigned_task_count"
BUCKET = 'ringfence_http_request_duration_seconds_bucket{instance="a",area="api",le='
Series = dict[str, str]


def problem(name: str) -> tuple[Series, Series]:
    series = f'ringfence_cluster_problem{{problem="{name}",instance='
    # As two web processes see it, one of them later.
    return {series + '"a"}': "1x60", series + '"b"}': "0 1x60"}, {series + '"a"}': "0x60"}


def gauge(name: str, bad: float, good: float = 0, labels: str = 'connector="c"') -> tuple[Series, Series]:
    return {f"{name}{{{labels}}}": f"{bad}x60"}, {f"{name}{{{labels}}}": f"{good}x60"}


def counter(name: str, labels: str = 'connector="c"') -> tuple[Series, Series]:
    """It grows by one a minute; and it stays as high as it was."""
    return {f"{name}{{{labels}}}": "0+1x60"}, {f"{name}{{{labels}}}": "70x60"}


def slots(free: int) -> Series:
    return {
        'kafka_connect_connect_worker_metrics_task_count{worker="w"}': "4x60",
        'ringfence_worker_slots{worker="w"}': f"{4 + free}x60",
        f'{UNASSIGNED}{{connector="c"}}': "2x60",
    }


def answers(status: str) -> Series:
    total = 'ringfence_http_requests_total{instance="a",area="api",'
    return {total + 'status="200"}': "0+90x60", total + f'status="{status}"}}': "0+10x60"}


FAULTS: Final[dict[str, tuple[Series, Series]]] = {
    "RingfenceDown": ({UP: "0x60"}, {UP: "1x60"}),
    "RingfenceNoWorker": problem("no-worker"),
    "RingfenceNoLeader": problem("no-leader"),
    "RingfenceNoKafka": problem("no-kafka-worker-1"),
    "RingfenceNoRedis": problem("no-redis"),
    "RingfenceProjectionBehind": problem("no-projection"),
    "RingfenceWorkerSilent": problem("silent-worker-1"),
    "RingfenceLeaderChanges": ({LEADER: "1+1x60"}, {LEADER: "70x60"}),
    "RingfenceClocksDiffer": (
        {
            'ringfence_clock_offset_seconds{process="web"}': "0x60",
            'ringfence_clock_offset_seconds{process="w"}': "-3x60",
        },
        {
            'ringfence_clock_offset_seconds{process="web"}': "0x60",
            'ringfence_clock_offset_seconds{process="w"}': "1x60",
        },
    ),
    "RingfenceSlotsUsedUp": (slots(0), slots(1)),
    "RingfenceConnectorFailed": (
        {'kafka_connect_connector_metrics_status{connector="c",status="failed"}': "1x60"},
        {'kafka_connect_connector_metrics_status{connector="c",status="running"}': "1x60"},
    ),
    "RingfenceTaskFailed": gauge(FAILED, 2),
    "RingfenceTaskUnassigned": gauge(UNASSIGNED, 1),
    "RingfenceConnectorRetrying": (
        {'ringfence_connector_health{connector="c",health="retrying"}': "1x60"},
        {'ringfence_connector_health{connector="c",health="healthy"}': "1x60"},
    ),
    "RingfenceConnectorStalled": (
        {'ringfence_connector_health{connector="c",health="stalled"}': "1x60"},
        {'ringfence_connector_health{connector="c",health="healthy"}': "1x60"},
    ),
    "RingfenceFencingStuck": gauge("ringfence_connector_fencing", 1),
    "RingfenceTransactionOpen": gauge(
        "ringfence_task_open_transaction_age_seconds", 700, 500, 'connector="c",task="0"'
    ),
    "RingfenceHangingTransactions": counter("ringfence_connector_hanging_transactions_ended_total"),
    "RingfenceDeadLetters": counter("ringfence_connector_dead_letters_total"),
    "RingfenceRecordsSkipped": counter("ringfence_connector_skipped_records_total"),
    "RingfenceTaskRestarts": counter("ringfence_task_auto_restarts_total", 'connector="c",task="0"'),
    "RingfenceWebErrors": (answers("503"), answers("404")),
    "RingfenceWebSlow": (
        {BUCKET + '"5"}': "0+8x60", BUCKET + '"10"}': "0+10x60", BUCKET + '"+Inf"}': "0+10x60"},
        {BUCKET + '"5"}': "0+10x60", BUCKET + '"10"}': "0+10x60", BUCKET + '"+Inf"}': "0+10x60"},
    ),
}
"""The series of a fault, and those of a cluster without it, by the minute."""


def minutes(rule: dict[str, Any]) -> int:
    return int(str(rule.get("for", "0m")).removesuffix("m"))


def case(alert: str, series: Series, at: int, *, fires: bool) -> dict[str, Any]:
    """One case of `promtool test rules`: whether the alert fires `at` minutes."""
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": firing, "eval_time": f"{at}m", "exp_samples": [{"labels": "{}", "value": 1}] if fires else []}
        ],
    }


def test_each_alert_fires_in_its_fault_and_at_no_other_time(tmp_path: Path) -> None:
    assert set(FAULTS) == set(RULES)
    cases = []
    for alert, (fault, calm) in FAULTS.items():
        cases += [case(alert, fault, 50, fires=True), case(alert, calm, 50, fires=False)]
        if minutes(RULES[alert]):
            cases.append(case(alert, fault, minutes(RULES[alert]) - 1, fires=False))
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(FOLDER / "alerts.yml")], "tests": cases}))
    done = subprocess.run([find("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rule_that_never_fires_is_noticed(tmp_path: Path) -> None:
    alert = "RingfenceTaskFailed"
    file = tmp_path / "tests.yml"
    wrong = case(alert, FAULTS[alert][1], 50, fires=True)
    file.write_text(json.dumps({"rule_files": [str(FOLDER / "alerts.yml")], "tests": [wrong]}))
    done = subprocess.run([find("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode != 0


def test_the_scrape_configuration_is_valid(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    config = (FOLDER / "prometheus.yml").read_text().replace("/etc/prometheus/ringfence-token", str(token))
    (tmp_path / "alerts.yml").write_bytes((FOLDER / "alerts.yml").read_bytes())
    (tmp_path / "prometheus.yml").write_text(config)
    command = [find("promtool"), "check", "config", "--lint-fatal", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", RULES)
def test_each_alert_has_a_runbook_and_is_in_the_documentation(alert: str) -> None:
    rule = RULES[alert]
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    page = (ROOT / "docs" / "monitoring.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{alert}` |"))
    assert rule["annotations"]["runbook"] in row


def test_dashboards_and_alerts_read_only_metrics_that_exist() -> None:
    known = set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE))
    texts = [
        path.read_text() for path in (FOLDER / "alerts.yml", *sorted((ROOT / "deploy" / "grafana").glob("*.json")))
    ]
    used = {
        name
        for text in texts
        for name in re.findall(r"\b(?:kafka_connect|kafka_producer|ringfence|process)_[a-z_]+", text)
    }
    histograms = {f"{name}_bucket" for name in known}
    assert sorted(used - known - histograms) == []


@pytest.mark.parametrize("file", sorted((ROOT / "deploy" / "grafana").glob("*.json")), ids=lambda file: file.stem)
def test_a_dashboard_can_be_imported_anywhere(file: Path) -> None:
    dashboard = json.loads(file.read_text())
    assert dashboard["uid"] == f"ringfence-{file.stem}"
    assert "id" not in dashboard  # Grafana gives each one a number of its own
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert numbers == sorted(set(numbers))
    for panel in dashboard["panels"]:
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
    taken = [
        (panel["gridPos"]["y"] + row, panel["gridPos"]["x"] + column)
        for panel in dashboard["panels"]
        for row in range(panel["gridPos"]["h"])
        for column in range(panel["gridPos"]["w"])
    ]
    assert len(taken) == len(set(taken))  # no panel lies on another one
