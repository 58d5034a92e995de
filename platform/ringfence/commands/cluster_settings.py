"""Arguments of commands that connect to Kafka with the worker's settings, on a machine that has them."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ringfence.commands.database import add_data_argument
from ringfence.encryption import KEY_FILE, KEYS
from ringfence.local import environment
from ringfence.local.data_directory import DataDirectory, default_root
from ringfence.local.errors import LocalError

if TYPE_CHECKING:
    from ringfence.worker_config import WorkerConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --config and --data."""
    parser.add_argument(
        "--config",
        type=Path,
        default=None,
        metavar="FILE",
        help="the worker's properties file (default: $RINGFENCE_WORKER_CONFIG and CONNECT_* variables, or what "
        "`ringfence up` runs)",
    )
    add_data_argument(parser)


def worker_config(args: argparse.Namespace) -> "WorkerConfig":
    """Return the workers' settings, and the keys of an `ringfence up`. Raises `LocalError` if they are unknown here."""
    settings = environment.read_environment(args.config)
    if _means_up(settings):
        instance = DataDirectory(args.data or default_root())
        port = instance.recall("kafka") if instance.root.exists() else None
        if port is None:
            raise LocalError(
                "The worker's settings are not known: name their file with --config FILE, set CONNECT_* as for a "
                "worker, or say with --data DIR which `ringfence up` is meant"
            )
        if not os.environ.get(KEY_FILE) and not os.environ.get(KEYS):
            os.environ[KEY_FILE] = str(instance.encryption_key_file)
        settings = environment.complete(
            settings, instance, bootstrap=f"127.0.0.1:{port}", embedded_kafka=True, redis_url="", http=""
        )
    from ringfence.fencing.errors import Invalid
    from ringfence.worker_config import WorkerConfig

    try:
        return WorkerConfig.from_environment(settings)
    except Invalid as error:
        raise LocalError(str(error)) from error


def client_file(args: argparse.Namespace) -> str:
    """Return the file with which Java clients log in to the Kafka of a `ringfence up`; "" for other clusters."""
    settings = environment.read_environment(args.config)
    instance = DataDirectory(args.data or default_root())
    return str(instance.kafka_client_file) if _means_up(settings) and instance.kafka_client_file.exists() else ""


def _means_up(settings: Mapping[str, str]) -> bool:
    return "CONNECT_BOOTSTRAP_SERVERS" not in settings and not settings.get("RINGFENCE_WORKER_CONFIG")


def has_database(args: argparse.Namespace) -> bool:
    """Return whether a database is configured here. A restore from a file does not need one."""
    if args.data is None and os.environ.get("RINGFENCE_DATABASE_URL"):
        return True
    return (DataDirectory(args.data or default_root()).root / "ringfence.sqlite3").exists()
