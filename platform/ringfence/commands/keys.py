"""`ringfence keys`: manages the keys that encrypt the configurations that web and workers store."""

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path

from ringfence.commands import server_arguments
from ringfence.commands.server_arguments import connect
from ringfence.encryption import KEY_FILE, KEYS, NoKey, keyring, new_key
from ringfence.local.data_directory import DataDirectory, default_root
from ringfence.local.errors import LocalError
from ringfence.subcommands import add_command

_SECONDS = 60.0
_PAUSE_SECONDS = 2.0
_HEADER = "# The first key encrypts what Ringfence keeps of configurations, all decrypt. Keep a copy elsewhere.\n"


class _NotLookedAt(Exception):
    """The config topic could not be read. The message gives the reason and the remedy."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    new = add_command(actions, "new", "create a key, and print it or write it to a new file")
    new.add_argument("--file", type=Path, metavar="FILE", help="new file to write, readable only by you")
    check = add_command(actions, "check", "count the stored values by key")
    rotate = add_command(actions, "rotate", "add a key to the key file, and encrypt everything under it")
    rotate.add_argument("--drop-old", action="store_true", help="also remove older keys that nothing uses any more")
    for action in (check, rotate):
        server_arguments.add_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Run the command. Returns 0, or raises `LocalError` with a remedy."""
    try:
        if args.action == "new":
            return _new(args.file)
        _find_keys(args.data)
        connect(args.data)
        return _check(args) if args.action == "check" else _rotate(args)
    except NoKey as error:
        raise LocalError(str(error)) from error


def write_new(file: Path) -> None:
    """Write a new file with one new key. Raises `LocalError` if the file exists, because an older key may be in use."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise LocalError(f"{file} cannot be made ({error.strerror}): name a file that does not exist yet") from error
    with os.fdopen(descriptor, "w") as out:
        out.write(f"{_HEADER}{new_key()}\n")


def _new(file: Path | None) -> int:
    if file is None:
        print(new_key())
        return 0
    write_new(file)
    print(f"Set {KEY_FILE}={file.absolute()} for web and workers.")
    return 0


def _find_keys(data: Path | None) -> None:
    """Use the key file of `ringfence up`, unless the environment names one."""
    if not os.environ.get(KEY_FILE) and not os.environ.get(KEYS):
        os.environ[KEY_FILE] = str(DataDirectory(data or default_root()).encryption_key_file)


def _check(args: argparse.Namespace) -> int:
    from ringfence.encrypted_rows import survey

    newest, key_ids = keyring().keys[0].id, {key.id for key in keyring().keys}
    rows = [(key, count, "the database") for key, count in survey().items()]
    try:
        rows += [(key, count, "the config topic") for key, count in topic_counts(args).items()]
    except _NotLookedAt as error:
        print(f"The config topic was not read: {error}")
    for key, count, where in sorted(rows):
        state = "in clear" if not key else "newest" if key == newest else "older" if key in key_ids else "MISSING"
        print(f"{key or '-':8}  {count:6}  {state:8}  in {where}")
    print(f"The newest key is {newest}.")
    return 0


def _rotate(args: argparse.Namespace) -> int:
    from ringfence.encrypted_rows import renew, survey

    path = os.environ.get(KEY_FILE)
    if not path:
        raise LocalError(
            f"The keys are in {KEYS}: put a new one (`ringfence keys new`) before the others, restart web and then "
            "the workers, which encrypts everything again, and remove the older ones when "
            "`ringfence keys check` shows nothing under them"
        )
    file = Path(path)
    lines = [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    _write(file, [new_key(), *lines])
    newest = keyring().keys[0].id
    print(f"{renew()} values are encrypted under the new key {newest}.")
    left = sum(count for key, count in survey().items() if key != newest)
    try:
        left += _await_leader(args, newest)
    except _NotLookedAt as error:
        if args.drop_old:
            raise LocalError(f"The older keys stay, the config topic may need them: {error}") from error
        print(f"The config topic was not read: {error}")
    if args.drop_old and left:
        raise LocalError(f"The older keys stay: {left} values are not under the new one, see `ringfence keys check`")
    if args.drop_old:
        _write(file, [file.read_text().splitlines()[1]])
        print("The older keys are removed from the file. Messages that are in transit now are dropped.")
    return 0


def topic_counts(args: argparse.Namespace) -> Mapping[str, int]:
    """Return the number of configurations in the config topic under each key; "" for unencrypted ones. Raises
    `_NotLookedAt`.
    """
    from ringfence.encryption import ConfigVault
    from ringfence.fencing.clock import Deadline
    from ringfence.fencing.errors import FencingError
    from ringfence.fencing.topics.config_encryption import EncryptionWatch
    from ringfence.fencing.topics.topic_log import TopicLog

    try:
        config = server_arguments.worker_config(args)
    except LocalError as error:
        raise _NotLookedAt(str(error)) from error
    watch, limit = EncryptionWatch(ConfigVault()), Deadline.after(_SECONDS)
    try:
        reader = TopicLog(config.connection("ringfence-keys"), config.config_topic, deadline=limit)
        try:
            watch.look([*reader.catch_up(limit), *reader.ahead])
        finally:
            reader.close()
    except FencingError as error:
        raise _NotLookedAt(str(error)) from error
    return watch.counts


def _await_leader(args: argparse.Namespace, newest: str) -> int:
    """Wait until the leader has encrypted the config topic again. Returns how many configurations remain
    under older keys.
    """
    until = time.monotonic() + _SECONDS
    while True:
        left = sum(count for key, count in topic_counts(args).items() if key and key != newest)
        if not left or time.monotonic() > until:
            break
        print(f"{left} configurations in the config topic are under older keys: waiting for the leader", flush=True)
        time.sleep(_PAUSE_SECONDS)
    if left:
        print("The leader encrypts the config topic again while workers run that read this key file: start them")
    return left


def _write(file: Path, keys: list[str]) -> None:
    """Replace the file atomically, because processes read it whenever it changes."""
    scratch = file.with_name(f".{file.name}.tmp")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(_HEADER + "".join(f"{key}\n" for key in keys))
    scratch.replace(file)
