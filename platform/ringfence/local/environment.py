"""The environment that `up` hands to the web process and the workers."""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ringfence.connectors import properties
from ringfence.encryption import KEY_FILE, KEYS
from ringfence.local.cache import cache_root
from ringfence.local.errors import LocalError
from ringfence.local.instance import Instance
from ringfence.local.jars import FLIGHTS_FILE

DEMO_RUN_FOLDER = "RINGFENCE_DEMO_RUN_FOLDER"
_WEBS = ("RINGFENCE_SECRET_KEY", "RINGFENCE_TOKEN")

TOPICS = {
    "CONFIG_STORAGE": "connect-configs",
    "OFFSET_STORAGE": "connect-offsets",
    "STATUS_STORAGE": "connect-status",
    "EVENTS_STORAGE": "connect-events",
}


def worker_properties(path: Path) -> dict[str, str]:
    """A worker properties file of Kafka Connect as the CONNECT_* variables that mean the same."""
    try:
        settings = properties.read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LocalError(f"The worker file {path} cannot be read ({error.strerror}): check --config FILE") from error
    except UnicodeDecodeError as error:
        raise LocalError(f"The worker file {path} is not UTF-8: save it so, or write \\uXXXX") from error
    except properties.Malformed as error:
        raise LocalError(f"{path} {error}; correct it and start again") from error
    return {"CONNECT_" + key.upper().replace(".", "_"): value for key, value in settings.items()}


def read_environment(config: Path | None) -> dict[str, str]:
    """Our own environment with the worker file under it: a variable that is set wins."""
    return (worker_properties(config) if config else {}) | dict(os.environ)


def complete(
    base: Mapping[str, str], instance: Instance, *, bootstrap: str, embedded_kafka: bool, redis_url: str, http: str
) -> dict[str, str]:
    """`base` with everything that the roles need; what is set already stays, except for where they really are."""
    defaults = {
        "CONNECT_GROUP_ID": "ringfence",
        "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
        "RINGFENCE_DATABASE_URL": f"sqlite:///{instance.root / 'ringfence.sqlite3'}",
        "RINGFENCE_SECRET_KEY": "",
        "DJANGO_SETTINGS_MODULE": "ringfence.settings",
        # Spark takes the first `python3` on the PATH otherwise, which may lack everything.
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        "CONNECT_EGRESS_ALLOW": "public,private,loopback",
        # Where the first connector of the documentation reads, and the demo.
        "CONNECT_FILE_ROOTS": f"{tempfile.gettempdir()},{cache_root() / FLIGHTS_FILE}",
    }
    for name, topic in TOPICS.items():
        defaults[f"CONNECT_{name}_TOPIC"] = topic
        if embedded_kafka:
            defaults[f"CONNECT_{name}_REPLICATION_FACTOR"] = "1"
    env = defaults | dict(base)
    env["CONNECT_BOOTSTRAP_SERVERS"] = bootstrap
    env["RINGFENCE_REDIS_URL"] = redis_url
    env["RINGFENCE_HTTP"] = http
    env.setdefault("RINGFENCE_PUBLIC_URL", f"http://{http}")
    env["RINGFENCE_DATA"] = str(instance.root)
    env.pop(DEMO_RUN_FOLDER, None)
    if not env["RINGFENCE_SECRET_KEY"]:
        env["RINGFENCE_SECRET_KEY"] = instance.secret_key()
    if not env.get(KEYS) and not env.get(KEY_FILE):
        env[KEY_FILE] = str(instance.encryption_keys())
    return env


def for_demo(env: Mapping[str, str], instance: Instance) -> dict[str, str]:
    """Of the demo's web process: its pages have a button that kills a worker."""
    return {**env, DEMO_RUN_FOLDER: str(instance.run_folder)}


def for_worker(env: Mapping[str, str]) -> dict[str, str]:
    """Without what only web needs."""
    return {name: value for name, value in env.items() if name not in _WEBS}
