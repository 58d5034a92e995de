"""Arguments of commands that use Django's tables, on a machine that can reach the database."""

import argparse
import os
from pathlib import Path

from ringfence.local.data_directory import DataDirectory, default_root
from ringfence.local.errors import LocalError


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
