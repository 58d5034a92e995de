"""`ringfence transactions`: the tasks' transactional ids as Kafka's coordinators know them, over REST."""

import argparse
from typing import Any

from ringfence.client import output, states
from ringfence.client.arguments import Actions, add_reason, add_yes, run
from ringfence.client.output import ClientError, Exit, confirm
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    listing = actions.add("list", _list, "list transactional ids as Kafka reports them now", output="table json yaml")
    listing.add_argument(
        "name", metavar="CONNECTOR", nargs="?", help="only of this connector (default: all connectors)"
    )
    which = listing.add_mutually_exclusive_group()
    which.add_argument("--open", action="store_true", help="only ids with an open transaction")
    which.add_argument("--closed", action="store_true", help="only ids without an open transaction")
    listing.add_argument("--state", metavar="STATE", help="only ids in this Kafka state, such as Ongoing")
    listing.add_argument("--task", type=int, metavar="N", help="only of this task")
    listing.add_argument("--older-than", type=float, metavar="SECONDS", help="only open for longer than this")
    about = "abort an open transaction by fencing its id; its task restarts"
    end = actions.add("end", _end, about, connector=True)
    end.add_argument("transactional_id", metavar="ID", help="transactional id, as `list` shows it")
    add_reason(end)
    add_yes(end)
    states.add_wait(end)
    hanging = actions.add(
        "hanging", _hanging, "list open transactions that no coordinator knows (KIP-664)", output="table json yaml"
    )
    hanging.add_argument(
        "name", metavar="CONNECTOR", nargs="?", help="only of this connector (default: all connectors)"
    )
    about = "abort a hanging transaction with a marker on its partition; fencing cannot end it"
    abort = actions.add("abort", _abort, about, connector=True)
    abort.add_argument("topic", help="topic of the open transaction")
    abort.add_argument("partition", type=int, help="partition of the open transaction")
    abort.add_argument("producer_id", type=int, help="producer id, as `hanging` shows it")
    add_reason(abort)
    add_yes(abort)


def _path(name: str) -> str:
    return f"/api/v1/connectors/{segment(name)}"


def _names(rest: Rest, args: argparse.Namespace) -> list[str]:
    return [args.name] if args.name else [row["name"] for row in rest.get_rows("/api/v1/connectors")]


def _list(rest: Rest, args: argparse.Namespace) -> int:
    query = {"open": "true"} if args.open else {"open": "false"} if args.closed else {}
    rows = [
        {"connector": name, **row}
        for name in _names(rest, args)
        for row in rest.call("GET", f"{_path(name)}/transactions", **query)["transactions"]
        if _matches(row, args)
    ]
    columns: dict[str, output.Cell] = {
        "CONNECTOR": lambda row: row["connector"],
        "TASK": lambda row: row["task"],
        "ID": lambda row: row["id"],
        "STATE": lambda row: row["state"] or "(unknown)",
        "AGE": lambda row: output.span(row["age_ms"]),
        "TIMEOUT": lambda row: output.span(row["timeout_ms"]),
        "PRODUCER": lambda row: f"{row['producer_id']}/{row['epoch']}" if row["producer_id"] >= 0 else "-",
        "VERSION": lambda row: row["transaction_version"],
        "PARTITIONS": lambda row: " ".join(f"{each['topic']}-{each['partition']}" for each in row["partitions"]),
    }
    output.listing(rows, args.output, columns)
    return 0


def _matches(row: Any, args: argparse.Namespace) -> bool:
    if args.task is not None and row["task"] != args.task:
        return False
    if args.state is not None and row["state"].lower() != args.state.lower():
        return False
    return args.older_than is None or (row["age_ms"] is not None and row["age_ms"] > args.older_than * 1000)


def _end(rest: Rest, args: argparse.Namespace) -> int:
    rows = rest.call("GET", f"{_path(args.name)}/transactions")["transactions"]
    row = next((row for row in rows if row["id"] == args.transactional_id), None)
    if row is None:
        ids = ", ".join(row["id"] for row in rows) or "none"
        raise ClientError(Exit.NOT_FOUND, f"{args.name} has no id {args.transactional_id}; it has {ids}")
    if not row["open"]:
        print(f"{row['id']}: no transaction is open ({row['state'] or 'unknown to Kafka'}); nothing was changed")
        return 0
    confirm(args.name, f"fence {row['id']}, which aborts what is open since {output.span(row['age_ms'])}", args.yes)
    before = states.attempts(rest, args.name)
    body = {"reason": args.reason, "transactional_id": row["id"]}
    for fenced in rest.call("POST", f"{_path(args.name)}/fence", body)["fenced"]:
        print(f"{fenced['id']}: fenced, now producer {fenced['producer_id']}/{fenced['epoch']}")
    if args.wait:
        of_task = {task: attempt for task, attempt in before.items() if task == row["task"]}
        states.until(rest, args.name, states.target(rest, args.name), args.wait_seconds, newer=of_task)
    return 0


def _hanging(rest: Rest, args: argparse.Namespace) -> int:
    rows = [
        {"connector": name, **row}
        for name in _names(rest, args)
        for row in rest.call("GET", f"{_path(name)}/transactions/hanging")["hanging"]
    ]
    columns: dict[str, output.Cell] = {
        "CONNECTOR": lambda row: row["connector"],
        "TOPIC": lambda row: row["topic"],
        "PARTITION": lambda row: row["partition"],
        "PRODUCER": lambda row: row["producer_id"],
        "FROM OFFSET": lambda row: row["start_offset"],
        "AGE": lambda row: output.span(row["age_ms"]),
        "ID": lambda row: row["transactional_id"] or "(unknown)",
        "MAY BE ENDED": lambda row: "not yet" if row["why_not"] else "yes",
    }
    output.listing(rows, args.output, columns)
    return 0


def _abort(rest: Rest, args: argparse.Namespace) -> int:
    where = f"{args.topic}-{args.partition}"
    confirm(args.name, f"abort what producer {args.producer_id} has open on {where}", args.yes)
    body = {"topic": args.topic, "partition": args.partition, "producer_id": args.producer_id, "reason": args.reason}
    for row in rest.call("POST", f"{_path(args.name)}/transactions/hanging", body)["hanging"]:
        print(f"{where}: what was open from offset {row['start_offset']} on is aborted")
    return 0
