"""`ringfence restore`: restores lost topics from a backup or from the database."""

import argparse
import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ringfence.commands import server_arguments
from ringfence.commands.server_arguments import ask_agreement, read_known_topics
from ringfence.connectors.plural_forms import write_count
from ringfence.local.errors import LocalError

if TYPE_CHECKING:
    from ringfence.recovery.backup_format import Copy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, help="a file written by `ringfence backup`")
    source.add_argument(
        "--from-database", action="store_true", help="take what the database shows: newer than most backups"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="after the loss of the offsets topic, let connectors continue from the copy's offsets at once. Records "
        "that they wrote after the copy are written again. Without it, connectors are restored as STOPPED",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    server_arguments.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Restore. Only lost topics are written; every old task is fenced first."""
    config = server_arguments.worker_config(args)
    from ringfence.fencing.errors import FencingError
    from ringfence.recovery.restore import Restore

    remembered = read_known_topics(args)
    try:
        copy = _copy(args, config.group_id)
        time = dt.datetime.fromtimestamp(copy.made_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        connectors, offsets = write_count(len(copy.connectors), "connector"), write_count(len(copy.offsets), "offset")
        print(f"{connectors}, {offsets} of sources, from {copy.source}, {time}")
        if not args.yes and not ask_agreement(f"Restore group {config.group_id} from it? [y/N] "):
            raise LocalError("Nothing was changed")
        done = Restore(config, remembered, print).run(copy, resume=args.resume)
    except FencingError as error:
        raise LocalError(str(error)) from error
    print(f"restored {done.connectors} connectors and {done.offsets} source offsets")
    if done.stopped:
        print(
            "The offsets topic was lost. Records that were written after the copy was made would be written again: "
            "all connectors are STOPPED. Compare their offsets with their topics, correct them with `ringfence "
            "offsets set`, then resume each",
            file=sys.stderr,
        )
    return 0


def _copy(args: argparse.Namespace, group_id: str) -> "Copy":
    from ringfence.recovery import backup, backup_format

    if args.from_database:
        return backup.from_database(group_id)
    try:
        if args.file.exists() and not args.file.is_file():
            raise LocalError(f"{args.file} is not a file: name one that `ringfence backup` has written")
        return backup_format.loads(args.file.read_text(encoding="utf-8"))
    except OSError as error:
        raise LocalError(f"{args.file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LocalError(f"{args.file} is not a backup of Ringfence: it is not UTF-8") from error
