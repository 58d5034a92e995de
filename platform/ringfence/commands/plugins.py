"""`ringfence plugins`: over REST, except `install --into` and the commands for authors, which run locally."""

import argparse
import importlib
from pathlib import Path
from typing import Any

from ringfence.client import output
from ringfence.client.arguments import Actions, run
from ringfence.client.exit_codes import ClientError, Exit
from ringfence.client.plugin_installations import install
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]

_PATIENCE_SECONDS = 300.0


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
    print(_load("local.plugin_contents").describe(place))
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
