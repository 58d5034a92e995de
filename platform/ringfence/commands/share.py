"""`ringfence share`: the cluster's share groups (KIP-932), over REST. Actions show their effect before they ask."""

import argparse
import datetime as dt
from typing import Any

from ringfence.client import output
from ringfence.client.arguments import Actions, add_reason, add_yes, run
from ringfence.client.output import ClientError, Exit, confirm
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]

_UNKNOWN = -1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    actions.add("list", _list, "list share groups as Kafka reports them now", output="table json yaml")
    _group(
        actions.add("describe", _describe, "show a share group's members and start offsets", output="table json yaml")
    )
    _group(actions.add("settings", _settings, "show a share group's settings", output="table json yaml"))
    about = "move a share group's start offsets, after showing the effect"
    alter = _group(actions.add("alter", _alter, about, output="table json yaml"))
    place = alter.add_mutually_exclusive_group(required=True)
    place.add_argument("--to-earliest", action="store_true", help="begin at the first available offset")
    place.add_argument("--to-latest", action="store_true", help="begin at the end")
    place.add_argument(
        "--to-time", metavar="TIME", help="begin at the first record at or after this time, like 2025-03-01T12:00:00Z"
    )
    place.add_argument("--to-offset", type=int, metavar="N", help="begin at this offset")
    alter.add_argument("--topic", help="only this topic (default: all of the group's topics)")
    alter.add_argument(
        "--partition", type=int, action="append", metavar="N", help="partition of --topic; may be repeated"
    )
    _add_act(alter)
    about = "delete a share group's offsets of a topic"
    forget = _group(actions.add("delete-offsets", _delete_offsets, about, output="table json yaml"))
    forget.add_argument("--topic", required=True, help="the topic")
    _add_act(forget)
    _add_act(_group(actions.add("delete", _delete, "delete a share group", output="table json yaml")))
    about = "have a connector process archived records now"
    now = _group(actions.add("process", _process, about, output="table json yaml"))
    now.add_argument("--topic", help="only this topic (default: all of the group's topics)")
    _add_act(now)
    change = _group(actions.add("set", _set, "change a share group's settings", output="table json yaml"))
    change.add_argument(
        "settings", nargs="+", metavar="NAME=VALUE", help="setting to change; NAME= restores the broker's default"
    )
    add_reason(change)


def _group(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("group", metavar="GROUP", help="the share group's id")
    return parser


def _add_act(parser: argparse.ArgumentParser) -> None:
    add_reason(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the effect without changing anything")
    add_yes(parser)


def _path(group: str, rest: str = "") -> str:
    return f"/api/v1/share-groups/{segment(group)}{rest}"


def _list(rest: Rest, args: argparse.Namespace) -> int:
    columns: dict[str, output.Cell] = {
        "GROUP": lambda row: row["group"],
        "CONNECTOR": lambda row: " ".join(row["connectors"]) or "-",
        "STATE": lambda row: row["state"],
        "MEMBERS": lambda row: row["members"],
        "PARTITIONS": lambda row: "-" if row["partitions"] is None else row["partitions"],
        "LAG": lambda row: "-" if row["lag"] is None else row["lag"],
        "TOPICS": lambda row: " ".join(row["topics"]),
    }
    output.listing(rest.call("GET", "/api/v1/share-groups")["results"], args.output, columns)
    return 0


def _describe(rest: Rest, args: argparse.Namespace) -> int:
    group = rest.call("GET", _path(args.group))
    if args.output != "table":
        output.print_structured(group, args.output)
        return 0
    connectors = " ".join(group["connectors"])
    print(f"{group['group']}: {group['state']}{f', read by connector {connectors}' if connectors else ''}")
    members = [(each["client"], each["host"], each["member"], _list_assigned(each)) for each in group["members"]]
    output.table(("CLIENT", "HOST", "MEMBER", "ASSIGNED"), members)
    print()
    _print_offsets(group["partitions"])
    return 0


def _list_assigned(member: Any) -> str:
    return " ".join(f"{at['topic']}-{at['partition']}" for at in member["assigned"])


def _print_offsets(partitions: Any) -> None:
    rows = [
        (each["topic"], each["partition"], _number(each["start"]), _number(each["end"]), _number(each["lag"]))
        for each in partitions
    ]
    output.table(("TOPIC", "PARTITION", "START", "END", "LAG"), rows)


def _number(value: int) -> object:
    return "-" if value == _UNKNOWN else value


def _settings(rest: Rest, args: argparse.Namespace) -> int:
    _print_settings(rest.call("GET", _path(args.group, "/settings"))["settings"], args.output)
    return 0


def _print_settings(settings: Any, form: str) -> None:
    columns: dict[str, output.Cell] = {
        "SETTING": lambda row: row["name"],
        "VALUE": lambda row: row["value"],
        "SET FOR": lambda row: "this group" if row["own"] else "-",
    }
    output.listing(settings, form, columns)


def _set(rest: Rest, args: argparse.Namespace) -> int:
    settings: dict[str, str | None] = {}
    for text in args.settings:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ClientError(Exit.USAGE, f"{text} is not NAME=VALUE")
        settings[name] = value or None
    body = {"settings": settings, "reason": args.reason}
    _print_settings(rest.call("PATCH", _path(args.group, "/settings"), body)["settings"], args.output)
    return 0


def _alter(rest: Rest, args: argparse.Namespace) -> int:
    if args.partition and not args.topic:
        raise ClientError(Exit.USAGE, "--partition names partitions of a topic: give --topic, too")
    body: dict[str, Any] = {"to": _place(args), "reason": args.reason}
    body |= {"topic": args.topic} if args.topic else {}
    body |= {"partitions": args.partition} if args.partition else {}

    def call(dry_run: bool) -> Any:
        return rest.call("PATCH", _path(args.group, "/offsets"), {**body, "dry_run": dry_run})

    return _act(args, "begin there", call)


def _place(args: argparse.Namespace) -> object:
    if args.to_earliest or args.to_latest:
        return "earliest" if args.to_earliest else "latest"
    if args.to_offset is not None:
        return {"offset": args.to_offset}
    try:
        moment = dt.datetime.fromisoformat(args.to_time)
    except ValueError as error:
        raise ClientError(Exit.USAGE, f"{args.to_time} is not a time like 2025-03-01T12:00:00Z") from error
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return {"time_ms": int(zoned.timestamp() * 1000)}


def _delete_offsets(rest: Rest, args: argparse.Namespace) -> int:
    query = {"topic": args.topic, "reason": args.reason}

    def call(dry_run: bool) -> Any:
        return rest.call("DELETE", _path(args.group, "/offsets"), **query, dry_run=str(dry_run).lower())

    return _act(args, f"delete its offsets in {args.topic}", call)


def _delete(rest: Rest, args: argparse.Namespace) -> int:
    def call(dry_run: bool) -> Any:
        return rest.call("DELETE", _path(args.group), reason=args.reason, dry_run=str(dry_run).lower())

    return _act(args, "delete it", call)


def _process(rest: Rest, args: argparse.Namespace) -> int:
    body = {"reason": args.reason, **({"topic": args.topic} if args.topic else {})}
    preview = rest.call("POST", _path(args.group, "/archived"), {**body, "dry_run": True})
    if args.dry_run or not args.yes:
        _print_waiting(preview, args.output)
    if preview["refusal"]:
        raise ClientError(Exit.CONFLICT, preview["refusal"])
    if args.dry_run:
        return 0
    confirm(args.group, "have them processed now", args.yes)
    _print_waiting(rest.call("POST", _path(args.group, "/archived"), body), args.output)
    return 0


def _print_waiting(answer: Any, form: str) -> None:
    if form != "table":
        output.print_structured(answer, form)
        return
    rows = [
        (each["topic"], each["partition"], each["archived"], sum(last - first + 1 for first, last in each["waiting"]))
        for each in answer["partitions"]
    ]
    output.table(("TOPIC", "PARTITION", "ARCHIVED", "NOT DONE"), rows)
    print(f"{answer['waiting']} offsets {'would be' if answer['dry_run'] else 'are'} processed now")


def _act(args: argparse.Namespace, purpose: str, call: Any) -> int:
    """Show the effect, ask, and carry out the action. Standard output gets only one set of numbers:
    those of the result.
    """
    foreseen = call(True)
    if args.dry_run or not args.yes:
        _print_moves(foreseen, args.output)
    if foreseen["refusal"]:
        raise ClientError(Exit.CONFLICT, foreseen["refusal"])
    if args.dry_run:
        return 0
    confirm(args.group, purpose, args.yes)
    _print_moves(call(False), args.output)
    return 0


def _print_moves(answer: Any, form: str) -> None:
    if form != "table":
        output.print_structured(answer, form)
        return
    rows = [
        (
            each["topic"],
            each["partition"],
            _number(each["before"]),
            f"{each['after']} (forgotten)" if each["forgets"] else each["after"],
            each["again"],
            each["skipped"],
            "" if each["sure"] else "its leader may deliver some records from before first",
        )
        for each in answer["partitions"]
    ]
    output.table(("TOPIC", "PARTITION", "BEFORE", "AFTER", "AGAIN", "SKIPPED", ""), rows)
    would = "would be" if answer["dry_run"] else "are"
    print(f"{answer['again']} offsets {would} processed again, {answer['skipped']} {would} skipped")
