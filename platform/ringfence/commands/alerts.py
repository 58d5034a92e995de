"""`ringfence alerts`, over REST."""

import argparse

from ringfence.client import output
from ringfence.client.arguments import Actions, add_reason, run
from ringfence.client.rest import Rest

__all__ = ["add_arguments", "run"]

_ALL = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    listing = actions.add("list", _list, "list open incidents", output="table json yaml")
    listing.add_argument("--all", action="store_true", help="include resolved incidents")
    take = actions.add("acknowledge", _acknowledge, "acknowledge an incident")
    take.add_argument("incident", type=int, metavar="INCIDENT", help="incident number, from `list`")
    silence = actions.add("silence", _silence, "silence alerts about a connector for some hours")
    which = silence.add_mutually_exclusive_group(required=True)
    which.add_argument("--connector", help="the connector's name")
    which.add_argument("--everything", action="store_true", help="silence all connectors and the cluster")
    silence.add_argument("--hours", type=int, required=True, help="how long, at most 168")
    add_reason(silence)
    actions.add("silences", _silences, "list silences and when they end", output="table json yaml")
    end = actions.add("unsilence", _unsilence, "end a silence")
    end.add_argument("silence", type=int, metavar="SILENCE", help="silence number, from `silences`")


def _list(rest: Rest, args: argparse.Namespace) -> int:
    columns: dict[str, output.Cell] = {
        "INCIDENT": lambda row: row["id"],
        "CONNECTOR": lambda row: row["connector"] or "-",
        "RULE": lambda row: row["rule"],
        "SINCE": lambda row: output.time_of(row["began_ms"] or row["opened_ms"]),
        "STATE": _state,
        "WHAT": lambda row: row["summary"],
    }
    query = {} if args.all else {"open": "true"}
    output.listing(rest.get_rows("/api/v1/alerts/incidents", query=query), args.output, columns)
    return 0


def _state(row: dict[str, object]) -> str:
    if row["resolved_ms"]:
        return "resolved"
    return f"acknowledged by {row['acknowledged_by'] or 'somebody'}" if row["acknowledged_ms"] else "open"


def _acknowledge(rest: Rest, args: argparse.Namespace) -> int:
    incident = rest.call("POST", f"/api/v1/alerts/incidents/{args.incident}/acknowledgement")
    print(f"Incident {incident['id']}: {_state(incident)}")
    return 0


def _silence(rest: Rest, args: argparse.Namespace) -> int:
    connector = _ALL if args.everything else args.connector
    body = {"connector": connector, "hours": args.hours, "reason": args.reason}
    silence = rest.call("POST", "/api/v1/alerts/silences", body)
    until, ends = output.time_of(silence["until_ms"]), f"ringfence alerts unsilence {silence['id']}"
    print(f"{connector or 'everything'}: silenced until {until} (`{ends}` ends it)")
    return 0


def _silences(rest: Rest, args: argparse.Namespace) -> int:
    columns: dict[str, output.Cell] = {
        "SILENCE": lambda row: row["id"],
        "CONNECTOR": lambda row: row["connector"] or "everything",
        "UNTIL": lambda row: output.time_of(row["until_ms"]),
        "BY": lambda row: row["user"] or "-",
        "WHY": lambda row: row["why"],
    }
    output.listing(rest.get_rows("/api/v1/alerts/silences"), args.output, columns)
    return 0


def _unsilence(rest: Rest, args: argparse.Namespace) -> int:
    rest.call("DELETE", f"/api/v1/alerts/silences/{args.silence}")
    print(f"Silence {args.silence}: ended")
    return 0
