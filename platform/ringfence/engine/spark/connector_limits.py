"""Derives what connectors must not access (`connectors.worker_limits`) from the worker's settings and environment.

It removes the platform's settings from the environment of Spark and of processes that run plugin code. They contain the
passwords of the database, Redis and Kafka. A process inherits its parent's environment, so a worker removes them after
it has read them, and passes on by name what plugin code needs.
"""

import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import astuple
from typing import Final

from ringfence.connectors.config_providers import PREFIX, PROVIDERS
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk.egress import EGRESS_ALLOW
from ringfence.connectors.sdk.worker_limits import (
    ENVIRONMENT,
    FILE_ROOTS,
    LISTEN_DEFAULT,
    LISTEN_HOST,
    WRITE_ROOTS,
    WorkerLimits,
    names,
    task_limit,
)
from ringfence.consumer_commands import CLIENT_FILE
from ringfence.engine.platform_topics import topics_of
from ringfence.environment import SQLITE, database
from ringfence.log_format import VARIABLE as LOG_FORMAT
from ringfence.platform_addresses import find_own_listeners
from ringfence.worker_config import WorkerConfig

_OURS: Final = ("RINGFENCE_", "CONNECT_")
_OF_EXPORTERS: Final = ("OTEL_EXPORTER_",)
"""Where traces and metrics go, with the headers and keys that let us in there."""
_HANDED_ON: Final = frozenset({PROVIDERS, ENVIRONMENT, MARK, LOG_FORMAT})
_THREAD_COUNTS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
_HARMLESS: Final = (
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    MARK,
    LOG_FORMAT,
)
_HARMLESS_PREFIXES: Final = ("LC_", "PYTHON")


def is_ours(name: str) -> bool:
    """Return whether the variable configures the platform, so that plugins must not see it."""
    return name.startswith((*_OURS, *_OF_EXPORTERS)) and name not in _HANDED_ON


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not is_ours(name)}


def let_go(environment: MutableMapping[str, str]) -> None:
    """Remove them from this process's environment, so that processes which it starts later do not inherit them."""
    for name in [name for name in environment if is_ours(name)]:
        del environment[name]


def only_harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what any Python process needs, for one that decodes foreign bytes: nothing that could be a secret."""
    return {
        name: value for name, value in environment.items() if name in _HARMLESS or name.startswith(_HARMLESS_PREFIXES)
    }


def few_threads(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep libraries from starting a thread for each core, unless they are set already.

    The stacks of those threads count as memory, so a limit would depend on the machine.
    """
    return {name: "2" for name in _THREAD_COUNTS if name not in environment}


_FILES: Final = ("RINGFENCE_WORKER_CONFIG",)
_SQLITE: Final = ("", "-wal", "-shm", "-journal", "-waiting")


def limits_of(worker: WorkerConfig, cluster_id: str, environment: Mapping[str, str] | None = None) -> WorkerLimits:
    """Return the limits. cluster_id: of the worker's Kafka; environment: this process's by default."""
    variables = os.environ if environment is None else environment
    return WorkerLimits(
        roots=names(worker.settings.get(FILE_ROOTS, "")),
        closed=tuple(sorted(set(_forbidden_paths(worker.settings, variables)))),
        cluster_id=cluster_id,
        topics=tuple(astuple(topics_of(worker))),
        egress=worker.settings[EGRESS_ALLOW],
        home=worker.connection().bootstrap,
        write_roots=names(worker.settings.get(WRITE_ROOTS, "")),
        listen_host=worker.settings.get(LISTEN_HOST, "").strip() or LISTEN_DEFAULT,
        home_login=variables.get(CLIENT_FILE, ""),
        own_listeners=find_own_listeners(worker.settings, variables),
        tasks=task_limit(worker.settings),
    )


def _forbidden_paths(settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the data folder, the database, and all files with keys, of the worker and of config providers."""
    if data := environment.get("RINGFENCE_DATA", "").strip():
        yield os.path.abspath(data)
    database_settings = database(environment.get("RINGFENCE_DATABASE_URL", "sqlite:///ringfence.sqlite3"))
    if database_settings["ENGINE"] == SQLITE:
        yield from (f"{database_settings['NAME']}{end}" for end in _SQLITE)
    for name, value in environment.items():
        if value.strip() and (name in _FILES or (name.startswith("RINGFENCE_") and name.endswith("_FILE"))):
            yield os.path.abspath(value.strip())
    for name, value in settings.items():
        if name.startswith(PREFIX) and name.endswith(".allowed.paths"):
            yield from names(value)
        elif name.endswith((".keystore.location", ".key.location")):
            yield os.path.abspath(value.strip())
