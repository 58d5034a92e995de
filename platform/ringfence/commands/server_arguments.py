"""Arguments of commands that run where the server does: they use its database, or connect to Kafka with the worker's
settings.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ringfence.encryption import KEY_FILE, KEYS
from ringfence.local import environment
from ringfence.local.data_directory import DataDirectory, default_root
from ringfence.local.errors import LocalError

if TYPE_CHECKING:
    from ringfence.fencing.topics.topic_ids import TopicIds
    from ringfence.worker_config import WorkerConfig


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=None,
        metavar="DIR",
        help="the directory of `ringfence up` (default: $RINGFENCE_DATABASE_URL, else $RINGFENCE_DATA or "
        "~/.local/share/ringfence)",
    )


def add_topics(parser: argparse.ArgumentParser) -> None:
    """Add --topics, for commands that grant permissions on connectors."""
    parser.add_argument(
        "--topics",
        nargs="+",
        default=["*"],
        metavar="GLOB",
        help="the topics that these connectors may write to (default: *, all but internal ones). On a Kafka cluster "
        "without ACLs, this limits writing only: KafkaSource reads every topic but internal ones",
    )


def connect(data: Path | None) -> None:
    """Set up Django on the server's database. Raises `LocalError` if it does not exist."""
    if data is not None or not os.environ.get("RINGFENCE_DATABASE_URL"):
        path = DataDirectory(data or default_root()).root / "ringfence.sqlite3"
        if not path.exists():
            raise LocalError(
                f"There is no database at {path}: start `ringfence up` once, or say where it is with --data DIR or "
                "RINGFENCE_DATABASE_URL"
            )
        os.environ["RINGFENCE_DATABASE_URL"] = f"sqlite:///{path}"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
    import django

    django.setup()


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


def ask_agreement(question: str) -> bool:
    """Ask the user at the terminal, and return whether the answer is yes."""
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        raise LocalError("There is no terminal to ask for confirmation: add --yes") from None


def read_known_topics(args: argparse.Namespace) -> "TopicIds | None":
    """Return the topics that the database knows; None if there is no database."""
    if not has_database(args):
        if getattr(args, "from_database", False):
            connect(args.data)  # raises the error that names what is missing
        return None
    connect(args.data)
    from django.db import Error as DatabaseError

    from ringfence.projection import cluster_topics

    try:
        return cluster_topics.recall_or_derive()
    except DatabaseError as error:
        raise LocalError(f"The database does not answer ({error}), and it may know more: start it first") from error
