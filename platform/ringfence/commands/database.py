"""For commands that read and write what Django owns, on the machine that reaches the database."""

import argparse
import os
from pathlib import Path

from ringfence.local.errors import LocalError
from ringfence.local.instance import Instance, default_root


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
    """For what grants rights on connectors."""
    parser.add_argument(
        "--topics",
        nargs="+",
        default=["*"],
        metavar="GLOB",
        help="the topics that these connectors may write to (default: *, all but internal ones)",
    )


def connect(data: Path | None) -> None:
    """Set Django up on the database that the server uses. Raises LocalError where it is not there."""
    if data is not None or not os.environ.get("RINGFENCE_DATABASE_URL"):
        path = Instance(data or default_root()).root / "ringfence.sqlite3"
        if not path.exists():
            raise LocalError(
                f"There is no database at {path}: start `ringfence up` once, or say where it is with --data DIR or "
                "RINGFENCE_DATABASE_URL"
            )
        os.environ["RINGFENCE_DATABASE_URL"] = f"sqlite:///{path}"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ringfence.settings")
    import django

    django.setup()
