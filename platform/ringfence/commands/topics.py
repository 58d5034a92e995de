"""`ringfence topics`: shows the topics that hold the cluster's state, and accepts them after a loss.

`tail` reads any topic of the cluster, from Kafka: what a read_committed consumer sees of it. `list`, `records` and
`origin` are the data browser on the command line, over REST.
"""

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ringfence.client import arguments, output
from ringfence.client.arguments import Actions
from ringfence.client.output import escape, table
from ringfence.client.rest import Rest, segment
from ringfence.commands import server_arguments
from ringfence.commands.server_arguments import ask_agreement, read_known_topics
from ringfence.consumer_commands import consumer_commands
from ringfence.local.errors import LocalError
from ringfence.subcommands import add_command

if TYPE_CHECKING:
    from ringfence.fencing.kafka.connection import Connection


_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    over_rest = Actions(parser)
    _add_actions(over_rest)
    actions = over_rest.parsers
    show = add_command(actions, "show", "show the cluster's own topics, their ids, and the ids expected")
    accept = add_command(
        actions, "accept", "accept the cluster's own topics as they are now; all old tasks are fenced first"
    )
    accept.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    tail = add_command(actions, "tail", "read a topic as a read_committed consumer does, until Ctrl-C")
    tail.add_argument("topic", metavar="TOPIC", help="the topic's name")
    tail.add_argument(
        "--last", type=_count, default=10, metavar="N", help="begin with the last N records (default: 10)"
    )
    end = tail.add_mutually_exclusive_group()
    end.add_argument("--follow", action="store_true", help="keep printing new records until Ctrl-C (the default)")
    end.add_argument("--exit", action="store_true", help="exit at the end of the topic")
    tail.add_argument("--commands", action="store_true", help="print commands that read the topic with other consumers")
    for action in (show, accept, tail):
        server_arguments.add_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Run the command. `show` returns 0 if no topic is lost, otherwise 1."""
    if hasattr(args, "run_action"):
        return arguments.run(args)
    if args.action == "tail":
        return _tail(args)
    config = server_arguments.worker_config(args)
    from ringfence.engine.platform_topics import names_of, present, recall
    from ringfence.fencing.clock import Deadline
    from ringfence.fencing.errors import FencingError
    from ringfence.fencing.topics.topic_ids import ROLES, losses
    from ringfence.recovery.restore import Restore

    remembered = read_known_topics(args)
    connection, limit = config.connection("ringfence-topics"), Deadline.after(_SECONDS)
    try:
        if args.action == "accept":
            question = "Connectors and offsets that are not in these topics are lost. Accept the topics? [y/N] "
            if not args.yes and not ask_agreement(question):
                raise LocalError("Nothing was changed")
            Restore(config, remembered, print).accept()
            print("The topics as they are now are the cluster's topics")
            return 0
        topics = present(connection, config, limit)
        ids = recall(connection, config, limit, remembered)
    except FencingError as error:
        raise LocalError(str(error)) from error
    lost = {one.role: one for one in losses(ids, topics)} if ids is not None else {}
    names, was = names_of(config), ids.topics if ids is not None else {}
    rows = []
    for role in ROLES:
        now, before = topics[role], was.get(role)
        state = "lost" if role in lost else "there" if now else "not created yet"
        rows.append((role, names[role], now.id if now else "-", before.id if before else "-", state))
    print(f"Kafka is at {config.bootstrap}. `ringfence topics tail TOPIC` reads a topic.\n")
    table(("ROLE", "TOPIC", "ID", "REMEMBERED", "STATE"), rows)
    return 1 if lost else 0


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


_SEARCH = ("offset", "time", "partition", "key", "contains", "where", "limit", "cursor", "registry", "connector")


def _add_actions(actions: Actions) -> None:
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


_TAIL_SECONDS = 30.0
_LARGEST = 1024 * 1024
_AT_ONCE = 500


def _tail(args: argparse.Namespace) -> int:
    """Print records until Ctrl-C; with --exit, only the existing ones. Raises `LocalError`."""
    from ringfence.fencing.errors import FencingError

    config = server_arguments.worker_config(args)
    if args.commands:
        file = server_arguments.client_file(args)
        for command in consumer_commands(config.bootstrap, args.topic, config.settings, file):
            print(command.text)
        return 0
    connection = config.connection("ringfence-topics-tail")
    try:
        with contextlib.suppress(KeyboardInterrupt):
            for line in _lines(connection, args.topic, args.last, follow=not args.exit):
                print(line, flush=True)
    except FencingError as error:
        raise LocalError(f"Topic {args.topic} cannot be read at {config.bootstrap}: {error}") from error
    return 0


def _lines(connection: "Connection", topic: str, last: int, *, follow: bool) -> Iterator[str]:
    from ringfence.fencing.clock import Deadline
    from ringfence.fencing.kafka.consumer import PartitionReader
    from ringfence.fencing.kafka.topic_records import Limits, tail

    limits = Limits(records=last, size=_LARGEST)
    newest = tail(connection, topic, Deadline.after(_TAIL_SECONDS), limits, committed_only=True)
    for record in reversed(newest.records):
        yield _line(record.partition, record.offset, record.key, record.value)
    if not follow:
        return
    reader = PartitionReader(connection, topic, {each.partition: each.stable for each in newest.stretches})
    try:
        while True:
            for new in reader.poll(1.0, _AT_ONCE):
                yield _line(new.partition, new.offset, new.key, new.value)
    finally:
        reader.close()


def _line(partition: int, offset: int, key: bytes | None, value: bytes | None) -> str:
    return f"{partition}:{offset}\t{_text(key)}\t{_text(value)}"


def _text(data: bytes | None) -> str:
    return "null" if data is None else escape(data.decode("utf-8", "backslashreplace"))
