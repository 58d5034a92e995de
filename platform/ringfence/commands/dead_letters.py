"""`ringfence dead-letters`: lists records that could not be transformed or converted, and replays them, over REST."""

import argparse
from typing import Any

from ringfence.client import output
from ringfence.client.arguments import Actions, add_yes, run
from ringfence.client.output import ClientError, Exit, confirm
from ringfence.client.rest import Rest, segment
from ringfence.connectors.plural_forms import write_count

__all__ = ["add_arguments", "run"]

_STAGES = ("TRANSFORMATION", "HEADER_CONVERTER", "KEY_CONVERTER", "VALUE_CONVERTER")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    about = "list the newest dead letters and their errors, 25 at a time"
    listing = actions.add("list", _list, about, connector=True, output="table json yaml")
    _add_filters(listing)
    listing.add_argument("--before", metavar="PLACES", help="next page, as printed below the page before")
    about = "replay records through the current transforms and converters; each is written once"
    replay = actions.add("replay", _replay, about, connector=True, output="table json yaml")
    replay.add_argument("letters", metavar="PARTITION-OFFSET", nargs="*", help="dead letters, as `list` shows them")
    replay.add_argument("--all", action="store_true", help="replay all that match, at most the oldest 500")
    _add_filters(replay)
    replay.add_argument("--reason", help="reason, for the audit trail")
    add_yes(replay)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", choices=_STAGES, help="only records that failed at this stage")
    parser.add_argument(
        "--class", dest="by", metavar="CLASS", help="only failures of this transform, converter or error class"
    )


def _path(name: str) -> str:
    return f"/api/v1/connectors/{segment(name)}/dead-letters"


def _filters(args: argparse.Namespace) -> dict[str, str]:
    filters = {"stage": args.stage, "class": args.by}
    return {key: value for key, value in filters.items() if value}


def _list(rest: Rest, args: argparse.Namespace) -> int:
    query = {**_filters(args), **({"before": args.before} if args.before else {})}
    page = rest.call("GET", _path(args.name), **query)
    columns: dict[str, output.Cell] = {
        "LETTER": _place,
        "REPLAYED": lambda row: row["replayed"],
        "STAGE": lambda row: row["stage"],
        "CLASS": lambda row: row["class"],
        "TOPIC": lambda row: row["topic"],
        "SOURCE OFFSET": lambda row: row["source_offset"],
        "ERROR": lambda row: f"{row['error'].rpartition('.')[2]}: {row['message'][:80]}",
    }
    output.listing(page["letters"], args.output, columns)
    if page["before"] and args.output == "table":
        print(f"Older ones: --before {page['before']}")
    return 0


def _replay(rest: Rest, args: argparse.Namespace) -> int:
    if bool(args.letters) is args.all:
        raise ClientError(Exit.USAGE, "name dead letters, for example 0-17, or give --all")
    body: dict[str, Any] = {"reason": args.reason} if args.reason else {}
    if args.all:
        body |= {"all": True, **_filters(args)}
        what = "replay all dead letters that match"
    elif _filters(args):
        raise ClientError(Exit.USAGE, "--stage and --class choose among --all")
    else:
        body["letters"] = [_letter(text) for text in args.letters]
        what = f"replay {write_count(len(args.letters), 'dead letter')}"
    confirm(args.name, what, args.yes)
    done = rest.call("POST", f"{_path(args.name)}/replay", body)
    columns: dict[str, output.Cell] = {
        "LETTER": _place,
        "OUTCOME": lambda row: row["became"],
        "TOPIC": lambda row: row["topic"] or "-",
        "WHY": lambda row: row["why"] or "-",
    }
    output.listing(done["results"], args.output, columns)
    if done["left"] and args.output == "table":
        print(f"{done['left']} more match: replay again for the next")
    bad = [row for row in done["results"] if row["became"] in ("failed", "undecided", "missing")]
    if bad:
        raise ClientError(Exit.INVALID, f"{len(bad)} of {len(done['results'])} were not replayed")
    return 0


def _place(row: Any) -> str:
    return f"{row['partition']}-{row['offset']}"


def _letter(text: str) -> dict[str, int]:
    partition, _, offset = text.partition("-")
    if not (partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()):
        raise ClientError(Exit.USAGE, f"{text} is not a dead letter: give partition and offset, as in 0-17")
    return {"partition": int(partition), "offset": int(offset)}
