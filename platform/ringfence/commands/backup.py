"""`ringfence backup`: writes configurations, target states and source offsets to one file."""

import argparse
import os
import sys
from pathlib import Path

from ringfence.commands import cluster_settings
from ringfence.connectors.plural_forms import write_count
from ringfence.local.errors import LocalError

_SECONDS = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="file to write, with mode 0600; it must not exist")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    cluster_settings.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Back up a running cluster, without changing anything in it."""
    config = cluster_settings.worker_config(args)
    from ringfence.fencing.clock import Deadline
    from ringfence.fencing.errors import FencingError
    from ringfence.recovery.backup import from_kafka

    if args.file.exists() and not args.force:
        raise LocalError(f"{args.file} exists: name another file, or replace it with --force")
    try:
        copy = from_kafka(config.connection("ringfence-backup"), config, Deadline.after(_SECONDS))
    except FencingError as error:
        raise LocalError(f"Nothing was written: {error}") from error
    _write(args.file, copy.dumps())
    connectors, offsets = len(copy.connectors), len(copy.offsets)
    print(f"{write_count(connectors, 'connector')} and {write_count(offsets, 'source offset')} in {args.file}")
    print(
        "It holds the configurations as they are, PASSWORDS AND OTHER SECRETS INCLUDED: keep it as you keep those",
        file=sys.stderr,
    )
    return 0


def _write(path: Path, text: str) -> None:
    """Write the whole file or nothing. It is never readable by other users."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise LocalError(f"{path} cannot be written: {error.strerror}") from error
