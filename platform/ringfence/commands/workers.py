"""`ringfence workers`, over REST."""

import argparse

from ringfence.client import output
from ringfence.client.arguments import Actions, run
from ringfence.client.rest import Rest

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    actions.add("list", _list, "list workers and mark the leader", output="table json yaml")
    actions.add("leader", _leader, "show the leader and since when it leads", output="table json yaml")


def _list(rest: Rest, args: argparse.Namespace) -> int:
    columns: dict[str, output.Cell] = {
        "WORKER": lambda row: row["worker"],
        "LEADS": lambda row: "leader" if row["leads"] else "",
        "TASKS": lambda row: f"{row['tasks']}/{row['slots']}",
        "MODE": lambda row: row["mode"],
        "VERSION": lambda row: row["version"],
        "SINCE": lambda row: output.time_of(row["since_ms"]),
    }
    output.listing(rest.get_rows("/api/v1/workers"), args.output, columns)
    return 0


def _leader(rest: Rest, args: argparse.Namespace) -> int:
    answer = rest.call("GET", "/api/v1/leader")
    if args.output != "table":
        output.print_structured(answer, args.output)
        return 0
    since = output.time_of(answer["since_ms"])
    rows = [(answer["leader"], answer["group_generation"], since, answer["kafka_cluster_id"])]
    output.table(("LEADER", "GROUP GENERATION", "SINCE", "KAFKA CLUSTER"), rows)
    return 0
