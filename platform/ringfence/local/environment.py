"""The environment of the web process and the workers that `up` starts."""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ringfence.connectors.java.runtime import INSTALL_PATH, PLUGIN_PATH
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk import properties
from ringfence.consumer_commands import CLIENT_FILE
from ringfence.encryption import KEY_FILE, KEYS
from ringfence.fencing.draft_names import read_final_names
from ringfence.local.cache import cache_root
from ringfence.local.data_directory import DataDirectory
from ringfence.local.errors import LocalError
from ringfence.local.jars import FLIGHTS_FILE

DEMO_RUN_FOLDER = "RINGFENCE_DEMO_RUN_FOLDER"
_WEBS = ("RINGFENCE_SECRET_KEY", "RINGFENCE_TOKEN")

_ENCRYPTION = "CONNECT_CONFIG_STORAGE_ENCRYPTION_ENABLE"
_ENCRYPTED_TOPICS = "encrypted topics"

TOPICS = {
    "CONFIG_STORAGE": "connect-configs",
    "OFFSET_STORAGE": "connect-offsets",
    "STATUS_STORAGE": "connect-status",
    "EVENTS_STORAGE": "connect-events",
}


def worker_properties(path: Path) -> dict[str, str]:
    """Return the settings of a Kafka Connect worker properties file as CONNECT_* variables."""
    try:
        settings = properties.read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LocalError(f"The worker file {path} cannot be read ({error.strerror}): check --config FILE") from error
    except UnicodeDecodeError as error:
        raise LocalError(f"The worker file {path} is not UTF-8: save it as UTF-8, or write \\uXXXX") from error
    except properties.MalformedLine as error:
        raise LocalError(f"{path} {error}; correct it and start again") from error
    return {variable_of(key): value for key, value in read_final_names(settings).items()}


def variable_of(setting: str) -> str:
    """Return the environment variable of a worker setting."""
    return "CONNECT_" + setting.upper().replace(".", "_")


def read_environment(config: Path | None) -> dict[str, str]:
    """Return this process's environment, with the worker file as defaults."""
    return (worker_properties(config) if config else {}) | read_final_names(os.environ, variable_of)


def complete(
    base: Mapping[str, str], instance: DataDirectory, *, bootstrap: str, embedded_kafka: bool, redis_url: str, http: str
) -> dict[str, str]:
    """Return `base` with everything that the roles need. Existing variables are kept, except for the actual
    addresses, and the login of the embedded Kafka.
    """
    defaults = {
        "CONNECT_GROUP_ID": "ringfence",
        "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
        "RINGFENCE_DATABASE_URL": f"sqlite:///{instance.root / 'ringfence.sqlite3'}",
        "RINGFENCE_SECRET_KEY": "",
        "DJANGO_SETTINGS_MODULE": "ringfence.settings",
        # Otherwise Spark takes the first `python3` on the PATH, which may lack the packages.
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        "CONNECT_EGRESS_ALLOW": "public,private,loopback",
        # Where the first connector in the documentation and the demo read.
        "CONNECT_FILE_ROOTS": f"{tempfile.gettempdir()},{cache_root() / FLIGHTS_FILE}",
    }
    for name, topic in TOPICS.items():
        defaults[f"CONNECT_{name}_TOPIC"] = topic
        if embedded_kafka:
            defaults[f"CONNECT_{name}_REPLICATION_FACTOR"] = "1"
    if embedded_kafka and instance.recall(_ENCRYPTED_TOPICS):
        defaults[_ENCRYPTION] = "true"
    env = defaults | dict(base)
    env.pop(CLIENT_FILE, None)
    if embedded_kafka and (login := instance.kafka_login()):
        env |= {variable_of(key): value for key, value in login.java_settings().items()}
        env[CLIENT_FILE] = str(instance.kafka_client_file)
    env["CONNECT_BOOTSTRAP_SERVERS"] = bootstrap
    env["RINGFENCE_REDIS_URL"] = redis_url
    env["RINGFENCE_HTTP"] = http
    env.setdefault("RINGFENCE_PUBLIC_URL", f"http://{http}")
    env["RINGFENCE_DATA"] = str(instance.root)
    env[MARK] = str(os.getpid())
    env.pop(DEMO_RUN_FOLDER, None)
    if not env["RINGFENCE_SECRET_KEY"]:
        env["RINGFENCE_SECRET_KEY"] = instance.secret_key()
    if not env.get(KEYS) and not env.get(KEY_FILE):
        env[KEY_FILE] = str(instance.encryption_keys())
    return env


def open_plugin_folder(base: Mapping[str, str], instance: DataDirectory, *, private: bool) -> dict[str, str]:
    """Return `base` with a folder of the instance in which plugins can be installed from the page.

    It is unchanged if it has a `plugin.install.path`, also an empty one, which lets nobody install; if the database, in
    which installations are requested, is not the instance's own; and unless it is private: others could run code as
    this user.
    """
    path, install = variable_of(PLUGIN_PATH), variable_of(INSTALL_PATH)
    folder = str(instance.root / "plugins")
    if not private or install in base or base.get("RINGFENCE_DATABASE_URL") or "," in folder:
        return dict(base)
    others = base.get(path, "").strip()
    return {**base, path: f"{others},{folder}" if others else folder, install: folder}


def choose_encryption(instance: DataDirectory) -> None:
    """Let the config topic of a new embedded Kafka be encrypted, now and later. Call it before Kafka's first start.

    A folder that has Kafka's data keeps what it has, since a program may read its topic.
    """
    if not (instance.root / "kafka" / "logs").exists():
        instance.remember(_ENCRYPTED_TOPICS, "true")


def lines_about_encryption(env: Mapping[str, str]) -> list[str]:
    """Return what the user at the terminal needs to know, if the config topic is in clear by default."""
    if _ENCRYPTION in env:
        return []
    setting = _ENCRYPTION.removeprefix("CONNECT_").lower().replace("_", ".")
    return [f"Configurations are in Kafka in clear: set {setting}=true in a file for --config to encrypt them."]


def for_demo(env: Mapping[str, str], instance: DataDirectory) -> dict[str, str]:
    """Return the environment of the demo's web process: its pages have a button that kills a worker."""
    return {**env, DEMO_RUN_FOLDER: str(instance.run_folder)}


def for_worker(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what only web needs."""
    return {name: value for name, value in env.items() if name not in _WEBS}
