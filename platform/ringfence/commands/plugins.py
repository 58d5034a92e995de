"""`ringfence plugins`: over REST, except `install --into` and the commands for authors, which run locally.

An upload is sent in parts; the command then waits for the result of every worker."""

import argparse
import base64
import hashlib
import importlib
import sys
import time
from pathlib import Path
from typing import Any, Final

from ringfence.client import output
from ringfence.client.arguments import Actions, run
from ringfence.client.output import ClientError, Exit
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]

_PATIENCE_SECONDS = 300.0
_ROUTE: Final = "/api/v1/plugin-installations"
_PIECE: Final = 2 * 1024 * 1024
_LOOK_SECONDS: Final = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    listing = actions.add("list", _list, "list installed plugins", output="table json yaml")
    listing.add_argument("--all", action="store_true", help="include converters, transforms and predicates")
    actions.add("get", _get, "show a plugin's settings", output="table json yaml").add_argument(
        "plugin", help="class name, as `list` shows it"
    )
    fetching = actions.add(
        "install", _install, "install a plugin on all workers: from Maven Central, from PyPI, or from a file"
    )
    fetching.add_argument(
        "plugin",
        metavar="GROUP:ARTIFACT:VERSION|NAME==VERSION|FILE",
        help="Maven coordinates, a Python package, or a .zip, .jar or .whl",
    )
    fetching.add_argument(
        "--into", type=Path, metavar="DIR", help="install it in this local folder instead, without a server"
    )
    fetching.add_argument(
        "--wait-timeout",
        type=float,
        default=_PATIENCE_SECONDS,
        metavar="SECONDS",
        help=f"how long to wait for the workers (default: {_PATIENCE_SECONDS:g})",
    )
    creating = actions.add("new", _create, "create a package for a connector of your own")
    creating.add_argument("plugin", metavar="NAME", help="name of the new package")
    creating.add_argument(
        "--into", type=Path, default=Path(), metavar="DIR", help="folder to create it in (default: the current folder)"
    )
    watching = actions.add(
        "dev", _watch, "try a connector while you write it: its errors or first records, on each save"
    )
    watching.add_argument(
        "folder", type=Path, nargs="?", default=Path(), help="the plugin's folder (default: the current folder)"
    )
    watching.add_argument(
        "--config", type=Path, default=Path("example.json"), metavar="FILE", help="default: example.json in the folder"
    )
    watching.add_argument("--once", action="store_true", help="check once and exit, with code 1 on errors")
    verifying = actions.add("verify", _verify, "check with the compatibility suite that a connector is exactly once")
    verifying.add_argument(
        "folder", type=Path, nargs="?", default=Path(), help="the plugin's folder (default: the current folder)"
    )


def _list(rest: Rest, args: argparse.Namespace) -> int:
    plugins = rest.call("GET", "/connector-plugins", connectorsOnly=str(not args.all).lower())
    if args.output != "table":
        output.print_structured(plugins, args.output)
    else:
        rows = [(plugin["class"], plugin["type"], plugin.get("version") or "") for plugin in plugins]
        output.table(("CLASS", "TYPE", "VERSION"), rows)
    return 0


def _install(rest: Rest, args: argparse.Namespace) -> int:
    if args.into is None:
        return _install_everywhere(rest, args)
    installer = _load("local.plugin_installer")
    folder, file = args.into.absolute(), Path(args.plugin)
    place = installer.install_file(file, folder) if file.is_file() else installer.install(args.plugin, folder)
    print(_load("local.plugin_folders").describe(place))
    return 0


def _install_everywhere(rest: Rest, args: argparse.Namespace) -> int:
    installation = install(rest, args.plugin, args.wait_timeout)
    rows = [
        (each["worker"], each["state"], ", ".join(" ".join(one) for one in each["connectors"].items()) or each["error"])
        for each in installation["workers"]
    ]
    output.table(("WORKER", "STATE", "CONNECTORS"), rows)
    if installation["differs"]:
        raise ClientError(Exit.CONFLICT, "The workers have different files of it: install one version by its file")
    return int(Exit.DONE if installation["state"] == "done" else Exit.CONFLICT)


def _create(_rest: Rest, args: argparse.Namespace) -> int:
    folder = _load("testing.scaffold").create_package(args.plugin, args.into)
    print(f"{folder} is ready. Try it, test it, and install it where the workers run:")
    print(f"  cd {folder}\n  ringfence plugins dev\n  pytest\n  ringfence plugins verify\n  pip wheel --no-deps .")
    print("  ringfence plugins install ./*.whl")
    return 0


def _watch(_rest: Rest, args: argparse.Namespace) -> int:
    return int(_load("testing.author_commands").watch(args.folder, args.config, once=args.once))


def _verify(_rest: Rest, args: argparse.Namespace) -> int:
    return int(_load("testing.author_commands").verify(args.folder))


def _load(module: str) -> Any:
    """Import what only local commands need: plugin code, the kernel, a Kafka client."""
    return importlib.import_module(f"ringfence.{module}")


def _get(rest: Rest, args: argparse.Namespace) -> int:
    settings = rest.call("GET", f"/connector-plugins/{segment(args.plugin)}/config")
    if args.output != "table":
        output.print_structured(settings, args.output)
    else:
        keys = ("name", "type", "required", "default_value")
        rows = [["" if key.get(part) is None else key[part] for part in keys] for key in settings]
        output.table(("SETTING", "TYPE", "REQUIRED", "DEFAULT"), rows)
    return 0


def install(rest: Rest, plugin: str, seconds: float) -> dict[str, Any]:
    """Return the API's description of the installation as soon as each worker has the plugin.

    plugin: Maven coordinates, or the path of a file. Raises ClientError if a worker cannot install it, or after
    `seconds`; then the workers continue in the background.
    """
    file = Path(plugin)
    receipt = _send(rest, file) if file.is_file() else rest.call("POST", _ROUTE, {"plugin": plugin})
    end = time.monotonic() + seconds
    while True:
        installation: dict[str, Any] = rest.call("GET", f"{_ROUTE}/{receipt['id']}")
        if installation["state"] not in ("receiving", "running"):
            return installation
        if time.monotonic() > end:
            waiting = ", ".join(
                each["worker"] for each in installation["workers"] if each["state"] in ("waiting", "running")
            )
            raise ClientError(
                Exit.WAITED, f"Not installed on {waiting} within {seconds:g} s: the workers continue. See /ui/plugins"
            )
        time.sleep(_LOOK_SECONDS)


def _send(rest: Rest, file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    size = file.stat().st_size
    row: dict[str, Any] = rest.call("POST", _ROUTE, {"plugin": file.name, "size": size, "sha256": digest})
    with file.open("rb") as opened:
        for start in range(0, size, _PIECE):
            content = base64.b64encode(opened.read(_PIECE)).decode()
            row = rest.call("POST", f"{_ROUTE}/{row['id']}/bytes", {"start": start, "content": content})
            print(f"sent {row['received']:,} of {size:,} bytes", file=sys.stderr)
    return row
