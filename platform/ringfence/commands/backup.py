"""`ringfence backup`: writes configurations, target states and source offsets to one file."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ringfence.commands import server_arguments
from ringfence.connectors.plural_forms import write_count
from ringfence.local.errors import LocalError

if TYPE_CHECKING:
    from ringfence.recovery.backup_format import Copy
    from ringfence.worker_config import WorkerConfig

_SECONDS = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="file to write, with mode 0600; it must not exist")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument(
        "--final",
        action="store_true",
        help="the last backup before the connectors move to another cluster: no worker may run, every old task is "
        "fenced first, and afterwards all connectors are STOPPED here",
    )
    server_arguments.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Back up a running cluster, without changing anything in it; or with --final, one that ends."""
    config = server_arguments.worker_config(args)
    from ringfence.fencing.errors import FencingError

    if args.file.exists() and not args.force:
        raise LocalError(f"{args.file} exists: name another file, or replace it with --force")
    try:
        with _copy(config, final=args.final) as copy:
            _write(args.file, copy.dumps())
    except FencingError as error:
        state = f"{args.file} is complete, but connectors may not be STOPPED: run this again with another file"
        raise LocalError(f"{state if args.final and args.file.exists() else 'Nothing was written'}: {error}") from error
    connectors, offsets = len(copy.connectors), len(copy.offsets)
    print(f"{write_count(connectors, 'connector')} and {write_count(offsets, 'source offset')} in {args.file}")
    print(
        "It holds the configurations as they are, PASSWORDS AND OTHER SECRETS INCLUDED: keep it as you keep those",
        file=sys.stderr,
    )
    return 0


@contextmanager
def _copy(config: "WorkerConfig", *, final: bool) -> "Iterator[Copy]":
    from ringfence.fencing.clock import Deadline
    from ringfence.recovery.backup import from_kafka
    from ringfence.recovery.restore import Restore

    if not final:
        yield from_kafka(config.connection("ringfence-backup"), config, Deadline.after(_SECONDS))
        return
    with Restore(config, None, print).last_copy() as copy:
        yield copy
    print("Every old task is fenced, and all connectors are STOPPED here")


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
