"""Without an extra, validation says which one to install. In processes of their own, where packages are not there."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import json, sys
from importlib import import_module
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.plugins import PluginRegistry, describe
from ringfence.engine.plugins.validation import validate
from ringfence.testing.connector_run import list_errors

missing, module, name, config, root = json.loads(sys.argv[1])
for package in missing:
    assert package not in sys.modules, f"{package} is imported without need"
    sys.modules[package] = None
worker_limits.declare(worker_limits.of_settings({"file.roots": root}))
cls = getattr(import_module(f"ringfence.connectors.builtin.{module}.connector"), name)
print(json.dumps(list_errors(validate(PluginRegistry([describe(cls)]), name, config, exactly_once=True))))
"""

FILES: Mapping[str, str] = {"topic": "t", "format": "text"}
REST = json.dumps({"client": {"base_url": "https://1.1.1.1/"}, "resources": ["orders"]})
CASES: tuple[tuple[str, str, str, dict[str, str], str], ...] = (
    ("sqlalchemy", "sql", "SqlSourceConnector", {"mode": "bulk", "topic.prefix": "p"}, "sql"),
    (
        "dlt",
        "dlt_source",
        "DltSourceConnector",
        {"rest.config": REST, "topic.prefix": "p", "transaction.boundary": "connector"},
        "dlt",
    ),
    ("pyarrow", "files", "FilesSourceConnector", {**FILES, "format": "parquet"}, "files"),
    ("fastavro", "files", "FilesSourceConnector", {**FILES, "format": "avro"}, "files"),
    ("s3fs", "files", "FilesSourceConnector", {**FILES, "url": "s3://bucket/in"}, "files"),
    ("paramiko", "files", "FilesSourceConnector", {**FILES, "url": "sftp://host/in"}, "files"),
    ("google.auth", "files", "FilesSourceConnector", {**FILES, "url": "gs://bucket/in"}, "gcs"),
    (
        "azure.storage.blob",
        "files",
        "FilesSourceConnector",
        {**FILES, "url": "abfs://c@a.dfs.core.windows.net/in"},
        "azure",
    ),
    ("pyarrow", "spark_table", "SparkTableSourceConnector", {"topic": "t"}, "files"),
    (
        "sqlalchemy",
        "spark_table",
        "SparkTableSourceConnector",
        {"topic": "t", "url": "jdbc:postgresql://1.1.1.1/d", "dbtable": "t"},
        "sql",
    ),
)


@pytest.mark.parametrize(
    ("missing", "module", "name", "more", "extra"), CASES, ids=[f"{case[2]}-{case[0]}" for case in CASES]
)
def test_a_missing_extra_says_so_with_the_command(
    tmp_path: Path, missing: str, module: str, name: str, more: dict[str, str], extra: str
) -> None:
    places = {"url": f"file://{tmp_path}", "connection.url": f"sqlite:///{tmp_path}/shop.sqlite"}
    known = {"files": "url", "spark_table": "url", "sql": "connection.url"}.get(module)
    config = {"name": "c", "connector.class": name, **({known: places[known]} if known else {}), **more}
    asked = json.dumps([[missing], module, name, config, str(tmp_path)])
    done = subprocess.run([sys.executable, "-c", PROGRAM, asked], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)
    assert any(f"pip install 'ringfence[{extra}]'" in error for error in errors), errors
