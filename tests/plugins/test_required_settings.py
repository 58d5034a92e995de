"""A form whose required fields are filled is valid, for every built-in connector of the catalog."""

import json
import sqlite3
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ringfence.connectors.plugins import PluginRegistry
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine.plugins.validation import validate
from tests.support.catalog import BUILT_IN

REGISTRY = PluginRegistry.discover()
ELSEWHERE = {
    "KafkaSourceConnector": {"source.cluster.bootstrap.servers", "target.cluster.bootstrap.servers"},
    "ShareGroupSourceConnector": {"source.cluster.bootstrap.servers", "target.cluster.bootstrap.servers"},
    "PostgresSourceConnector": {"database.hostname"},
    "PySparkSourceConnector": {"data.source"},
}
"""The settings that name something which is not here; `tests/postgres` and `tests/mirror` have the real ones."""


@pytest.fixture
def api() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"[]"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def here(tmp_path: Path, api: str) -> Iterator[dict[str, dict[str, str]]]:
    """Values for settings whose samples name what is not on this machine."""
    (tmp_path / "a.csv").write_text("id,name\n1,Ann\n")
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, item TEXT)")
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits((str(tmp_path),), egress="loopback"))
    yield {
        "FileStreamSourceConnector": {"file": str(tmp_path / "a.csv")},
        "FilesSourceConnector": {"url": f"file://{tmp_path}"},
        "SparkTableSourceConnector": {"url": f"file://{tmp_path}"},
        "SqlSourceConnector": {"connection.url": f"sqlite:///{tmp_path}/shop.db", "mode": "bulk"},
        "DltSourceConnector": {"rest.config": json.dumps({"client": {"base_url": api}, "resources": ["orders"]})},
    }
    worker_limits.declare(former)


@pytest.mark.parametrize("plugin", BUILT_IN, ids=lambda cls: cls.__name__)
def test_nothing_else_has_to_be_filled_in(plugin: type, here: dict[str, dict[str, str]]) -> None:
    entry = plugin.catalog  # type: ignore[attr-defined]
    required_keys = [each["name"] for each in plugin.config_def().infos() if each["required"]]  # type: ignore[attr-defined]
    filled = {name: entry.sample[name] for name in required_keys if name in entry.sample}
    filled |= here.get(plugin.__name__, {})
    assert set(required_keys) <= filled.keys(), "the sample has a value for each"
    config = {"name": "c", "connector.class": plugin.__name__, **filled}
    answer: dict[str, Any] = validate(REGISTRY, plugin.__name__, config, exactly_once=True)
    wrong = {each["value"]["name"]: each["value"]["errors"] for each in answer["configs"] if each["value"]["errors"]}
    assert wrong.keys() <= ELSEWHERE.get(plugin.__name__, set()), wrong
