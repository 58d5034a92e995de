"""Faults that take too long to make: what `/metrics` shows of them is what the rules of deploy/prometheus read."""

import json
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from ringfence.metrics.views import exposition
from ringfence.projection.models import Connector
from tests.support.busy_tables import busy
from tests.support.prometheus import find

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"


def fires(alert: str, first: str, later: str, tmp_path: Path) -> bool:
    """Whether the alert fires where scrapes show the first text, and another one from the second minute on."""
    series = []
    scrapes = [
        dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")) for text in (first, later)
    ]
    for name in scrapes[1]:
        if name.startswith("ringfence_connector"):
            series.append({"series": name, "values": f"{scrapes[0].get(name, '_')} {scrapes[1][name]}x40"})
    rules = yaml.safe_load(RULES.read_text())
    assert alert in {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    firing = {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": "30m"}
    test = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{**firing, "exp_samples": [{"labels": "{}", "value": 1}]}],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [test]}))
    return (
        subprocess.run([find("promtool"), "test", "rules", str(file)], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.parametrize(
    ("alert", "columns"),
    [
        ("RingfenceConnectorStalled", {"stalled": True, "health": "STALLED"}),
        ("RingfenceFencingStuck", {"fencing": True}),
        ("RingfenceHangingTransactions", {"hanging_ended_total": 1}),
    ],
)
def test_a_long_fault_is_seen(alert: str, columns: dict[str, object], tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    busy(now_ms)
    before = exposition(now_ms)
    assert not fires(alert, before, before, tmp_path)
    Connector.objects.filter(name="c").update(**columns)
    assert fires(alert, before, exposition(now_ms), tmp_path)
