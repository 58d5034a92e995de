"""`ringfence plugins`: over REST only, but for `install`, which fills a folder of this machine."""

import argparse
from pathlib import Path

from ringfence.client import output
from ringfence.client.arguments import Actions, run
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    listing = actions.add("list", _list, "installed plugins", output="table json yaml")
    listing.add_argument("--all", action="store_true", help="converters, transforms and predicates, too")
    actions.add("get", _get, "a plugin's settings", output="table json yaml").add_argument("plugin")
    fetching = actions.add("install", _install, "fetch a Kafka Connect plugin from Maven Central into a local folder")
    fetching.add_argument("coordinate", metavar="GROUP:ARTIFACT:VERSION")
    fetching.add_argument(
        "--into", type=Path, required=True, metavar="DIR", help="a folder that the workers' plugin.path names"
    )


def _list(rest: Rest, args: argparse.Namespace) -> int:
    found = rest.call("GET", "/connector-plugins", connectorsOnly=str(not args.all).lower())
    if args.output != "table":
        output.print_structured(found, args.output)
    else:
        rows = [(plugin["class"], plugin["type"], plugin.get("version") or "") for plugin in found]
        output.table(("CLASS", "TYPE", "VERSION"), rows)
    return 0


def _install(_rest: Rest, args: argparse.Namespace) -> int:
    from ringfence.local.plugins import install, parse

    print(install(parse(args.coordinate), args.into.absolute()))
    return 0


def _get(rest: Rest, args: argparse.Namespace) -> int:
    found = rest.call("GET", f"/connector-plugins/{segment(args.plugin)}/config")
    if args.output != "table":
        output.print_structured(found, args.output)
    else:
        keys = ("name", "type", "required", "default_value")
        rows = [["" if key.get(part) is None else key[part] for part in keys] for key in found]
        output.table(("SETTING", "TYPE", "REQUIRED", "DEFAULT"), rows)
    return 0
