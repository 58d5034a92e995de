"""What each place says of a connector's health: pages, CSV, API and metrics."""

import csv
import io
import re
from collections.abc import Callable
from typing import Any

from tests.support.pages import squeeze

Read = Callable[[str], tuple[str, Any]]
"""Returns the answer to a GET as text, and as JSON if it is some."""


def read_places(read: Read, name: str) -> dict[str, str]:
    """Return the health as each place says it, by place."""
    [in_csv] = [row for row in csv.DictReader(io.StringIO(read("/ui/connectors.csv")[0])) if row["name"] == name]
    [listed] = [row for row in read("/api/v1/connectors?limit=500")[1]["results"] if row["name"] == name]
    metric = re.search(rf'ringfence_connector_health{{connector="{name}",health="(\w+)"}}', read("/metrics")[0])
    assert metric is not None
    filtered = read(f"/api/v1/connectors?health={listed['health']}&limit=500")[1]["results"]
    return {
        "page": word_after(read(f"/ui/connectors/{name}")[0], '<dl class="facts four card"'),
        "list": word_after(read(f"/ui/connectors?q={name}")[0], f'data-row="{name}"'),
        "csv": in_csv["health"],
        "list of the API": listed["health"],
        "API": read(f"/api/v1/connectors/{name}")[1]["health"],
        "metrics": metric[1].upper(),
        "filter of the API": listed["health"] if name in [row["name"] for row in filtered] else "not found",
    }


def word_after(page: str, after: str) -> str:
    """Return the health whose word stands on the first badge."""
    shown = re.search(r'class="chip[^>]*>.*?</svg>\s*([A-Z][a-z]+)', squeeze(page).partition(after)[2], re.DOTALL)
    assert shown is not None, page.partition(after)[2][:600]
    return shown[1].upper()
