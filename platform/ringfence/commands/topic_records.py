"""`ringfence topics list|records|origin`: the data browser on the command line, over REST."""

import argparse
from typing import Any

from ringfence.client import output
from ringfence.client.arguments import Actions, run
from ringfence.client.rest import Rest, segment

__all__ = ["add_actions", "run"]

_SEARCH = ("offset", "time", "partition", "key", "contains", "where", "limit", "cursor", "registry", "connector")


def add_actions(actions: Actions) -> None:
    list_parser = actions.add(
        "list", _list, "list the topics that you may see and who writes to them", output="table json yaml"
    )
    list_parser.add_argument("--search", default="", metavar="TEXT", help="only topics whose names contain this")
    list_parser.add_argument("--internal", action="store_true", help="include internal topics (administrators only)")
    records = actions.add(
        "records", _records, "show records of a topic, page by page; this is audited", output="table json yaml"
    )
    records.add_argument("topic", metavar="TOPIC", help="the topic's name")
    records.add_argument(
        "--from", dest="place", choices=("latest", "earliest", "offset", "time"), help="where to begin"
    )
    for name, about in (
        ("offset", "first offset to read"),
        ("time", "first time to read, like 2025-03-01T12:00:00Z"),
        ("partition", "only this partition"),
        ("key", "only records with exactly this key"),
        ("contains", "only records with this text in key, value or a header"),
        ("where", "only records for which this holds: value.delay > 15 and headers.source == 'a'"),
        ("limit", "number of records (default: 50)"),
        ("cursor", "next page of the same search: the cursor from an answer in JSON"),
        ("registry", "address of a Schema Registry"),
        ("connector", "decode as a topic of this connector"),
    ):
        records.add_argument(f"--{name}", metavar=name.upper(), help=about)
    records.add_argument("--uncommitted", action="store_true", help="include open and aborted records, marked as such")
    origin = actions.add("origin", _origin, "show where a record came from; this is audited", output="yaml json")
    origin.add_argument("topic", metavar="TOPIC", help="the topic's name")
    origin.add_argument("partition", type=int, metavar="PARTITION", help="the record's partition")
    origin.add_argument("offset", type=int, metavar="OFFSET", help="the record's offset")


def _list(rest: Rest, args: argparse.Namespace) -> int:
    query = {"search": args.search, **({"internal": "true"} if args.internal else {})}
    rows: list[Any] = []
    page = 1
    while True:
        answer = rest.call("GET", "/api/v1/topics", **query, page=str(page))
        rows += answer["results"]
        if page >= answer["pages"]:
            break
        page += 1
    columns: dict[str, output.Cell] = {
        "TOPIC": lambda row: row["topic"],
        "CONNECTORS": lambda row: " ".join(row["connectors"]) or "-",
        "PARTITIONS": lambda row: "-" if row["partitions"] is None else row["partitions"],
        "OFFSETS": lambda row: "-" if row["offsets"] is None else row["offsets"],
        "READABLE": lambda row: "yes" if row["readable"] else "no",
    }
    output.listing(rows, args.output, columns)
    return 0


def _records(rest: Rest, args: argparse.Namespace) -> int:
    query = {name: value for name in _SEARCH if (value := getattr(args, name)) is not None}
    query |= {"from": args.place} if args.place else {}
    query |= {"isolation": "read_uncommitted"} if args.uncommitted else {}
    page = rest.call("GET", f"/api/v1/topics/{segment(args.topic)}/records", **query)
    if args.output != "table":
        output.print_structured(page, args.output)
        return 0
    columns: dict[str, output.Cell] = {
        "SEEN": lambda row: row["seen"],
        "PARTITION": lambda row: row["partition"],
        "OFFSET": lambda row: row["offset"],
        "KEY": lambda row: " ".join(row["key"]["text"].split()),
        "VALUE": lambda row: " ".join(row["value"]["text"].split()),
    }
    output.listing(page["records"], "table", columns)
    return 0


def _origin(rest: Rest, args: argparse.Namespace) -> int:
    path = f"/api/v1/topics/{segment(args.topic)}/records/{args.partition}/{args.offset}/origin"
    output.print_structured(rest.call("GET", path), args.output)
    return 0
