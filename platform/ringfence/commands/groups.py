"""`ringfence groups`: the consumer groups that read your topics, over REST."""

import argparse

from ringfence.client import output
from ringfence.client.arguments import Actions, run
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]

_PATH = "/api/v1/consumer-groups"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    list_parser = actions.add(
        "list", _list, "list the groups that read topics that you may read", output="table json yaml"
    )
    list_parser.add_argument("--search", default="", metavar="TEXT", help="only groups whose names contain this")
    list_parser.add_argument("--topic", default="", metavar="TOPIC", help="only groups that read this topic")
    about = "show a group's members, offsets, lag, and the transactions that it waits for"
    actions.add("describe", _describe, about, output="table json yaml").add_argument(
        "group", metavar="GROUP", help="the group's id"
    )


def _list(rest: Rest, args: argparse.Namespace) -> int:
    columns: dict[str, output.Cell] = {
        "GROUP": lambda row: row["group"],
        "STATE": lambda row: row["state"],
        "MEMBERS": lambda row: row["members"],
        "LAG": lambda row: _number(row["lag"]),
        "LAG-TO-END": lambda row: _number(row["lag_to_end"]),
        "TOPICS": lambda row: " ".join(each["topic"] for each in row["topics"]),
    }
    page = rest.call("GET", _PATH, search=args.search, topic=args.topic)
    output.listing(page["results"], args.output, columns)
    return 0


def _describe(rest: Rest, args: argparse.Namespace) -> int:
    group = rest.call("GET", f"{_PATH}/{segment(args.group)}")
    if args.output != "table":
        output.print_structured(group, args.output)
        return 0
    print(f"{group['group']}: {group['state']}, {group['protocol']} protocol, members: {len(group['members'])}\n")
    rows = [
        (
            each["topic"],
            each["partition"],
            *(_number(each[key]) for key in ("committed", "stable", "end", "lag", "lag_to_end")),
            _holder(each["holder"]),
        )
        for each in group["partitions"]
    ]
    output.table(("TOPIC", "PARTITION", "COMMITTED", "LSO", "END", "LAG", "LAG-TO-END", "WAITS-FOR"), rows)
    return 0


def _number(value: int | None) -> object:
    return "-" if value is None else value


def _holder(holder: dict[str, object] | None) -> object:
    return "-" if holder is None else holder["transactional_id"] or f"producer {holder['producer_id']}"
