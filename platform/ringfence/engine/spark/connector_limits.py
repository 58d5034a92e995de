"""Derives what connectors must not access (`connectors.worker_limits`) from the worker's settings and environment."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from typing import Final

from ringfence.connectors.config_providers import PREFIX
from ringfence.connectors.sdk.egress import EGRESS_ALLOW
from ringfence.connectors.sdk.worker_limits import (
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
from ringfence.platform_addresses import find_own_listeners
from ringfence.worker_config import WorkerConfig

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
