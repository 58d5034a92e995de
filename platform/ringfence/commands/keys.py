"""`ringfence keys`: the keys that encrypt what web and workers keep of configurations."""

import argparse
import os
from pathlib import Path

from ringfence.commands.database import add_data_argument, connect
from ringfence.encryption import KEY_FILE, KEYS, NoKey, keyring, new_key
from ringfence.local.errors import LocalError
from ringfence.local.instance import Instance, default_root

_HEADER = "# The first key encrypts what Ringfence keeps of configurations, all decrypt. Keep a copy elsewhere.\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("new", help="make a key, and print it or write it to a new file")
    new.add_argument("--file", type=Path, metavar="FILE", help="a file that does not exist yet; readable by you only")
    check = actions.add_parser("check", help="how many stored values are under which key")
    rotate = actions.add_parser("rotate", help="add a key to the key file, and encrypt everything under it")
    rotate.add_argument("--drop-old", action="store_true", help="and take the older keys out, where nothing needs them")
    for action in (check, rotate):
        add_data_argument(action)


def run(args: argparse.Namespace) -> int:
    """0, or LocalError with what to do."""
    try:
        if args.action == "new":
            return _new(args.file)
        _find_keys(args.data)
        connect(args.data)
        return _check() if args.action == "check" else _rotate(drop_old=args.drop_old)
    except NoKey as error:
        raise LocalError(str(error)) from error


def write_new(file: Path) -> None:
    """A file with one new key. Raises LocalError where it is there already: an older key may be in use."""
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
    """As `ringfence up` does: its own file, where the environment names none."""
    if not os.environ.get(KEY_FILE) and not os.environ.get(KEYS):
        os.environ[KEY_FILE] = str(Instance(data or default_root()).encryption_key_file)


def _check() -> int:
    from ringfence.encrypted_rows import survey

    newest, known = keyring().keys[0].id, {key.id for key in keyring().keys}
    for key, count in sorted(survey().items()):
        state = "in clear" if not key else "newest" if key == newest else "older" if key in known else "MISSING"
        print(f"{key or '-':8}  {count:6}  {state}")
    print(f"The newest key is {newest}.")
    return 0


def _rotate(*, drop_old: bool) -> int:
    from ringfence.encrypted_rows import renew, survey

    named = os.environ.get(KEY_FILE)
    if not named:
        raise LocalError(
            f"The keys are in {KEYS}: put a new one (`ringfence keys new`) before the others there, start web and then "
            "the workers again, which encrypts everything again, and take the older ones out when "
            "`ringfence keys check` shows nothing under them"
        )
    file = Path(named)
    lines = [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    _write(file, [new_key(), *lines])
    newest = keyring().keys[0].id
    print(f"{renew()} values are encrypted under the new key {newest}.")
    left = {key: count for key, count in survey().items() if key != newest}
    if drop_old and left:
        count = sum(left.values())
        raise LocalError(f"The older keys stay: {count} values are not under the new one, see `ringfence keys check`")
    if drop_old:
        _write(file, [file.read_text().splitlines()[1]])
        print("The older keys are gone from the file. Messages that are under way at this moment are dropped.")
    return 0


def _write(file: Path, keys: list[str]) -> None:
    """At once: processes read it whenever it has changed."""
    scratch = file.with_name(f".{file.name}.tmp")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(_HEADER + "".join(f"{key}\n" for key in keys))
    scratch.replace(file)
