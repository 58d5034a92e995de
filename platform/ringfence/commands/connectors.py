"""`ringfence connectors`, over REST: list, create, change, pause, restart and delete connectors.

Their versions, events, logs, incremental snapshots and proofs of exactly once are subcommands, too.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from time import monotonic, sleep
from typing import Any

from ringfence.client import documents, output, plans, states
from ringfence.client.arguments import Actions, add_reason, add_yes, run
from ringfence.client.documents import Document
from ringfence.client.output import ClientError, Exit, confirm
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]

_MOST = 10_000
STATES = ("running", "paused", "stopped")
_CHANGES = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = Actions(parser)
    listing = actions.add("list", _list, "list connectors with their health and state", output="table json yaml")
    listing.add_argument("--deleted", action="store_true", help="list deleted connectors; `rollback` creates one again")
    actions.add("get", _get, "show a connector's state and tasks", connector=True, output="table json yaml")
    about_status = "show a connector's health and the reason, its records, tasks and failures"
    actions.add("status", states.status, about_status, connector=True, output="table json yaml")
    actions.add("config", _config, "show a connector's configuration", connector=True, output="yaml json properties")
    create = actions.add("create", _create, "create the connectors of a file; they must not exist yet")
    create.add_argument("--state", choices=STATES, default="running", help="initial state (default: running)")
    apply = actions.add("apply", _apply, "create or update the connectors of a file, and show the differences")
    for action in (create, apply):
        action.add_argument("-f", "--file", required=True, help="JSON, YAML or properties file; - for standard input")
        action.add_argument("--name", help="the connector's name, if the file does not contain it")
        action.add_argument(
            "--dry-run", action="store_true", help="validate and show the differences without changing anything"
        )
        states.add_wait(action)
    states.add_wait(actions.add("edit", _edit, "edit a configuration in $VISUAL or $EDITOR", connector=True))
    for name in _CHANGES:
        states.add_wait(actions.add(name, _change, f"{name} a connector", connector=True))
    restart = actions.add("restart", _restart, "restart a connector, and its tasks on request", connector=True)
    restart.add_argument("--tasks", action="store_true", help="restart its tasks, too")
    restart.add_argument("--only-failed", action="store_true", help="restart only what is FAILED")
    states.add_wait(restart)
    about = "fence all of a connector's transactional ids: open transactions are aborted, tasks restart"
    fence = actions.add("fence", _fence, about, connector=True)
    add_reason(fence)
    states.add_wait(fence)
    _add_incremental_snapshots(actions)
    _add_proofs(actions)
    _add_versions(actions)
    _add_events(actions)
    delete = actions.add("delete", _delete, "delete a connector; its source offsets are kept", connector=True)
    add_yes(delete)
    states.add_wait(delete)


def _path(name: str) -> str:
    return f"/connectors/{segment(name)}"


def _wait(rest: Rest, args: argparse.Namespace, name: str, state: str) -> None:
    if args.wait:
        states.until(rest, name, state, args.wait_seconds)


def _list(rest: Rest, args: argparse.Namespace) -> int:
    if args.deleted:
        columns: dict[str, output.Cell] = {
            "NAME": lambda row: row["name"],
            "VERSION": lambda row: row["version"],
            "TIME": lambda row: output.time_of(row["time_ms"]),
            "CLASS": lambda row: row["class_name"],
        }
        output.listing(rest.get_rows("/api/v1/deleted-connectors", _MOST), args.output, columns)
        return 0
    connectors: dict[str, Any] = rest.call("GET", "/connectors?expand=status&expand=info")
    own = states.of_all(rest)
    if args.output != "table":
        for name, parts in connectors.items():
            parts.update({key: own[name][key] for key in ("health", "reason")} if name in own else {})
        output.print_structured(connectors, args.output)
        return 0
    states.table(connectors, own)
    return 0


def _get(rest: Rest, args: argparse.Namespace) -> int:
    info, status = rest.call("GET", _path(args.name)), rest.find(_path(args.name) + "/status")
    if args.output != "table":
        output.print_structured({**info, "status": status}, args.output)
        return 0
    print(f"{info['name']}: {states.describe(status)}")
    if status is not None:
        rows = [(task["id"], task["state"], task["worker_id"], states.cause(task)) for task in status["tasks"]]
        output.table(("TASK", "STATE", "WORKER", "CAUSE"), rows)
    return 0


def _config(rest: Rest, args: argparse.Namespace) -> int:
    sys.stdout.write(documents.write(rest.call("GET", _path(args.name) + "/config"), args.output))
    return 0


def _create(rest: Rest, args: argparse.Namespace) -> int:
    new_documents = documents.read(args.file, args.name)
    for document in new_documents:
        if args.dry_run:
            if rest.find(_path(document.name)) is not None:
                raise ClientError(Exit.CONFLICT, f"Connector {document.name} already exists: use apply to change it")
            _validate(rest, document)
            print(f"{document.name}: would be created")
            continue
        body = {"name": document.name, "config": document.config, "initial_state": args.state.upper()}
        rest.call("POST", "/connectors", body)
        print(f"{document.name}: created")
    for document in new_documents if not args.dry_run else ():
        _wait(rest, args, document.name, args.state.upper())
    return 0


def _apply(rest: Rest, args: argparse.Namespace) -> int:
    for document in documents.read(args.file, args.name):
        stored = rest.find(_path(document.name) + "/config")
        lines = documents.difference(stored or {}, document.config)
        if lines and document.config.keys() - (stored or {}).keys():
            hidden = plans.hide_secrets(rest, document.config, stored or {})
            lines = documents.difference(stored or {}, {**hidden, **_keep_stored(document.config, stored or {})})
        if not lines:
            print(f"{document.name}: unchanged")
            continue
        word = "created" if stored is None else "changed"
        if args.dry_run:
            _validate(rest, document)
            print(f"{document.name}: would be {word}")
        else:
            rest.call("PUT", _path(document.name) + "/config", document.config)
            print(f"{document.name}: {word}")
        print("".join(f"  {line}\n" for line in lines), end="")
        if not args.dry_run and args.wait:
            _wait(rest, args, document.name, states.target(rest, document.name))
    return 0


def _keep_stored(config: dict[str, str], stored: dict[str, str]) -> dict[str, str]:
    """Return the settings that are stored already, whose difference shows no secret."""
    return {key: value for key, value in config.items() if key in stored}


def _validate(rest: Rest, document: Document) -> None:
    """Have the server validate. Raises `ClientError` (INVALID) with one line per error."""
    class_name = document.config.get("connector.class", "")
    if not class_name:
        raise ClientError(Exit.INVALID, f"{document.name}: connector.class is missing")
    validation = rest.call("PUT", f"/connector-plugins/{segment(class_name)}/config/validate", document.config)
    warning = rest.warning
    if validation["error_count"]:
        values = [entry["value"] for entry in validation["configs"]]
        lines = [f"  {value['name']}: {error}" for value in values for error in value["errors"]]
        raise ClientError(Exit.INVALID, "\n".join([f"{document.name} is not valid:", *lines]))
    if warning:
        print(f"{document.name}: {warning}", file=sys.stderr)


def _edit(rest: Rest, args: argparse.Namespace) -> int:
    lines = documents.edit(rest, args.name)
    print("\n".join([f"{args.name}: {'changed' if lines else 'unchanged'}", *(f"  {line}" for line in lines)]))
    if lines and args.wait:
        _wait(rest, args, args.name, states.target(rest, args.name))
    return 0


def _change(rest: Rest, args: argparse.Namespace) -> int:
    rest.call("PUT", f"{_path(args.name)}/{args.action}")
    print(f"{args.name}: {args.action} requested")
    _wait(rest, args, args.name, _CHANGES[args.action])
    return 0


def _restart(rest: Rest, args: argparse.Namespace) -> int:
    flags = {"includeTasks": str(args.tasks).lower(), "onlyFailed": str(args.only_failed).lower()}
    before = states.attempts(rest, args.name) if args.wait else {}
    status = rest.call("POST", f"{_path(args.name)}/restart", **flags)
    print(f"{args.name}: restart requested")
    if args.wait:
        again = {task["id"] for task in status["tasks"] if task["state"] == "RESTARTING"} if status else set()
        newer = {task: attempt for task, attempt in before.items() if task in again}
        states.until(rest, args.name, states.target(rest, args.name), args.wait_seconds, newer=newer)
    return 0


def _fence(rest: Rest, args: argparse.Namespace) -> int:
    answer = rest.call("POST", f"/api/v1{_path(args.name)}/fence", {"reason": args.reason})
    generation = answer["generation"]
    print(f"{args.name}: a fencing round prepares generation {generation}")
    if args.wait:
        state = states.target(rest, args.name)
        states.until(rest, args.name, state, args.wait_seconds, since=generation)
        fenced = rest.call("GET", f"/api/v1{_path(args.name)}/generations/{generation}")["fenced"]
        print(f"{args.name}: fenced {', '.join(each['id'] for each in fenced) or 'nothing: it had no tasks'}")
    return 0


def _delete(rest: Rest, args: argparse.Namespace) -> int:
    confirm(args.name, "delete it", args.yes)
    rest.call("DELETE", _path(args.name))
    print(f"{args.name}: deleted")
    _wait(rest, args, args.name, "DELETED")
    return 0


def _add_versions(actions: Actions) -> None:
    """Declare the three actions."""
    listing = actions.add(
        "versions",
        _list_versions,
        "list the versions of a configuration, newest first",
        connector=True,
        output="table json yaml",
    )
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="number of versions (default: 20)")
    diff = actions.add(
        "diff",
        _diff,
        "show the differences between two versions of a configuration",
        connector=True,
        output="text json yaml",
    )
    diff.add_argument("version", type=int, help="version number, from `versions`")
    diff.add_argument("to", type=int, nargs="?", help="version to compare with (default: the newest)")
    rollback = actions.add(
        "rollback",
        _rollback,
        "restore an earlier configuration with its secrets, also of a deleted connector",
        connector=True,
    )
    rollback.add_argument("version", type=int, help="version number, from `versions`")
    rollback.add_argument("--dry-run", action="store_true", help="show the differences without changing anything")
    rollback.add_argument(
        "--state",
        choices=("running", "paused", "stopped"),
        help="what a deleted connector is created again as (default: running)",
    )
    add_yes(rollback)
    states.add_wait(rollback)


def _versions_path(name: str) -> str:
    return f"/api/v1/connectors/{segment(name)}"


def _list_versions(rest: Rest, args: argparse.Namespace) -> int:
    versions = rest.get_rows(f"{_versions_path(args.name)}/versions", args.limit)
    columns: dict[str, output.Cell] = {
        "VERSION": lambda row: f"{row['number']}{' *' if row['current'] else ''}",
        "TIME": lambda row: output.time_of(row["time_ms"]),
        "USER": lambda row: row.get("user") or "-",
        "SETTINGS": lambda row: len(row["config"]),
        "CLASS": lambda row: row["config"].get("connector.class", ""),
    }
    output.listing(versions, args.output, columns)
    return 0


def _lines(answer: Any) -> list[str]:
    """Return the differences in the format of `apply`: + added, - removed, ~ changed; secrets are masked."""
    lines = {key: f"+ {key} = {value}" for key, value in answer["added"].items()}
    lines |= {key: f"- {key} = {value}" for key, value in answer["removed"].items()}
    for key, change in answer["changed"].items():
        hidden = change["before"] == change["after"]
        lines[key] = f"~ {key} = {change['before']}" + (" -> (another one)" if hidden else f" -> {change['after']}")
    return [line for _, line in sorted(lines.items())]


def _diff(rest: Rest, args: argparse.Namespace) -> int:
    query = {} if args.to is None else {"to": str(args.to)}
    diff = rest.call("GET", f"{_versions_path(args.name)}/versions/{args.version}/diff", **query)
    if args.output != "text":
        output.print_structured(diff, args.output)
        return 0
    lines = _lines(diff)
    print(f"{args.name}: version {diff['before']} -> {diff['after']}{'' if lines else ': nothing differs'}")
    print("".join(f"  {line}\n" for line in lines), end="")
    return 0


def _again(rest: Rest, args: argparse.Namespace) -> int:
    """Create a deleted connector again from one of its versions."""
    rest.call("GET", f"{_versions_path(args.name)}/versions/{args.version}")  # which says where there is none
    state = (args.state or "running").upper()
    if args.dry_run:
        print(f"{args.name}: was deleted, would be created again as in version {args.version}, {state}")
        return 0
    confirm(args.name, f"create it again with the configuration of version {args.version}", args.yes)
    rest.call("POST", f"{_versions_path(args.name)}/versions/{args.version}/rollback", {"initial_state": state})
    print(f"{args.name}: created again as in version {args.version}")
    if args.wait:
        states.until(rest, args.name, state, args.wait_seconds)
    return 0


def _rollback(rest: Rest, args: argparse.Namespace) -> int:
    if rest.find(f"{_versions_path(args.name)}/config") is None:
        return _again(rest, args)
    if args.state is not None:
        raise ClientError(Exit.USAGE, f"{args.name} exists: --state is for a deleted connector")
    # The ETag is of the version that was compared, so a change in between is a conflict and is not overwritten.
    _, tag = rest.get_with_etag(f"{_versions_path(args.name)}/config")
    (newest,) = rest.get_rows(f"{_versions_path(args.name)}/versions", 1)
    diff = rest.call("GET", f"{_versions_path(args.name)}/versions/{newest['number']}/diff", to=str(args.version))
    lines = _lines(diff)
    if not lines:
        print(f"{args.name}: unchanged, version {args.version} is what it has")
        return 0
    if args.dry_run:
        print(f"{args.name}: would be as in version {args.version}")
    else:
        confirm(args.name, f"set the configuration of version {args.version} again", args.yes)
        rest.call("POST", f"{_versions_path(args.name)}/versions/{args.version}/rollback", {}, match=tag)
        print(f"{args.name}: as in version {args.version}")
    print("".join(f"  {line}\n" for line in lines), end="")
    if args.wait and not args.dry_run:
        states.until(rest, args.name, states.target(rest, args.name), args.wait_seconds)
    return 0


PAUSE_SECONDS = 1.0
_OVERLAP_MS = 10_000
"""Events come from several processes, so an earlier one may be seen after a later one."""


def _add_events(actions: Actions) -> None:
    """Declare the actions."""
    events = actions.add(
        "events", _events, "show a connector's events, oldest first", connector=True, output="text json"
    )
    events.add_argument("--kind", help="only of this kind: round, task, command, warning …")
    logs = actions.add("logs", _logs, "show the logs of a connector and its tasks", connector=True, output="text json")
    logs.add_argument("--level", help="minimum level: ERROR, WARN, INFO or DEBUG")
    for action in (events, logs):
        action.add_argument("--task", type=int, metavar="N", help="only of this task")
        action.add_argument("--search", metavar="TEXT", help="only entries that contain this text")
        action.add_argument(
            "--since", metavar="TIME", help="only entries since this time: 2025-03-01T12:00:00Z, or ms since the epoch"
        )
        action.add_argument(
            "--limit", type=int, default=50, metavar="N", help="number of entries, newest first (default: 50)"
        )
        action.add_argument("-f", "--follow", action="store_true", help="keep printing new entries until Ctrl-C")
    about = "show or set a connector's log level; a level other than INFO is temporary"
    level = actions.add("log-level", _log_level, about, connector=True)
    level.add_argument(
        "level", nargs="?", metavar="LEVEL", help="ERROR, WARN, INFO, DEBUG …; leave it out to show the level"
    )
    level.add_argument("--minutes", type=int, default=15, metavar="N", help="how long the level applies (default: 15)")


def _log_level(rest: Rest, args: argparse.Namespace) -> int:
    path = f"/api/v1/connectors/{segment(args.name)}/log-level"
    body = None if args.level is None else {"level": args.level.upper(), "minutes": args.minutes}
    answer = rest.call("GET", path) if body is None else rest.call("PUT", path, body)
    until = f" until {output.time_of(answer['until_ms'])}" if answer["until_ms"] else ""
    print(f"{args.name}: {answer['level']}{until}")
    return 0


def _logs(rest: Rest, args: argparse.Namespace) -> int:
    def line(row: Any) -> str:
        where = f"task {row['task']}" if row["task"] >= 0 else f"worker {row['worker']}"
        return f"{output.time_of(row['time_ms'])}  {row['level']:<5}  {where}: {row['logger']}: {row['message']}"

    query = {"level": args.level, "task": args.task, "search": args.search, "since": args.since}
    if not _show_event(rest, args, "logs", query, line):
        print(f"{args.name}: no such lines are kept", file=sys.stderr)
    return 0


def _events(rest: Rest, args: argparse.Namespace) -> int:
    def line(row: Any) -> str:
        task = "" if row["task"] is None else f"task {row['task']}: "
        return f"{output.time_of(row['time_ms'])}  {row['kind']:<8}  {task}{row['summary']}"

    _show_event(rest, args, "events", {key: getattr(args, key) for key in ("kind", "task", "search", "since")}, line)
    return 0


def _show_event(
    rest: Rest, args: argparse.Namespace, what: str, parameters: Mapping[str, object], line: Callable[[Any], str]
) -> int:
    """Print the lines. Returns their number."""
    query = {name: str(value) for name, value in parameters.items() if value is not None}
    path = f"/api/v1/connectors/{segment(args.name)}/{what}"
    count = 0
    for row in follow(rest, path, query, args.limit, forever=args.follow):
        count += 1
        print(json.dumps(row, ensure_ascii=False) if args.output == "json" else line(row))
        sys.stdout.flush()
    return count


def follow(
    rest: Rest,
    path: str,
    query: dict[str, str],
    most: int,
    *,
    forever: bool,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Any]:
    """Yield the newest rows, oldest first; then, if `forever`, each new one once."""
    rows = rest.get_rows(path, most, {**query, "order": "-time_ms"})
    last = max((row["id"] for row in rows), default=0)
    newest = max((row["time_ms"] for row in rows), default=0)
    yield from reversed(rows)
    while forever:
        pause(PAUSE_SECONDS)
        since = {"since": str(max(0, newest - _OVERLAP_MS))} if newest else {}
        rows = [row for row in rest.get_rows(path, None, {**query, **since, "order": "time_ms"}) if row["id"] > last]
        last = max((row["id"] for row in rows), default=last)
        newest = max((row["time_ms"] for row in rows), default=newest)
        yield from rows


_ACTS = ("start", "pause", "resume", "stop", "status")
_WITH_TABLES = ("start", "stop")


def _add_incremental_snapshots(actions: Actions) -> None:
    """Declare the action."""
    about = "have a running PostgresSource read tables again, and show how far it is"
    action = actions.add("incremental-snapshot", _act, about, connector=True, output="table json yaml")
    action.add_argument("act", choices=_ACTS, help="start, pause, resume or stop it, or show how far it is")
    action.add_argument(
        "tables",
        nargs="*",
        metavar="TABLE",
        help="regular expression for schema.table: what to read (start), or to leave out (stop; default: all)",
    )


def _act(rest: Rest, args: argparse.Namespace) -> int:
    path = f"/api/v1/connectors/{segment(args.name)}/incremental-snapshot"
    if args.tables and args.act not in _WITH_TABLES:
        raise ClientError(Exit.USAGE, f"{args.act} is for all tables: leave {args.tables[0]} out")
    if args.act == "start" and not args.tables:
        raise ClientError(Exit.USAGE, "start needs the tables to read: public\\.orders, for example")
    if args.act == "status":
        _show_snapshot(rest.call("GET", path), args)
        return 0
    if args.act == "stop":
        for table in args.tables or [""]:
            rest.call("DELETE", path, **({"table": table} if table else {}))
    else:
        body = {"action": "execute" if args.act == "start" else args.act}
        rest.call("POST", path, {**body, "tables": args.tables} if args.tables else body)
    print(f"{args.name}: {args.act} requested; its task carries it out, `status` shows the result")
    return 0


def _show_snapshot(answer: Any, args: argparse.Namespace) -> None:
    if args.output != "table":
        output.print_structured(answer, args.output)
        return
    tables = answer["tables"]
    state = "paused" if answer["paused"] else "reading" if tables else "nothing is being read"
    parts = [state, f"{answer['rows']} rows read"]
    if answer["percent"] is not None:
        parts.append(f"about {answer['percent']} %")
    if answer["rows_per_second"] is not None:
        parts.append(f"{answer['rows_per_second']:.0f} rows/s")
    if answer["seconds_left"] is not None:
        parts.append(f"about {output.span(int(answer['seconds_left'] * 1000))} left")
    print(f"{args.name}: {', '.join(parts)}")
    for words in filter(None, (answer["note"], answer["refusal"])):
        print(f"  {words}")
    rows = [
        (one["table"], answer["table_rows"] if number == 0 else "-", one["rows_estimated"])
        for number, one in enumerate(tables)
    ]
    if rows:
        output.table(("TABLE", "ROWS", "ESTIMATED"), rows)


_PAUSE_SECONDS = 0.5
_GRACE_SECONDS = 60.0
_SECONDS = 300


def _add_proofs(actions: Actions) -> None:
    about = "check in Kafka that a connector was exactly once; the exit code is 1 if it was not"
    action = actions.add("proof", _prove, about, connector=True, output="text json yaml")
    action.add_argument("--last", action="store_true", help="show the newest report without counting again")
    action.add_argument("--number", type=int, metavar="N", help="show this report without counting again")
    action.add_argument(
        "--seconds", type=int, default=_SECONDS, metavar="N", help=f"how long the count may take (default: {_SECONDS})"
    )


def _prove(rest: Rest, args: argparse.Namespace) -> int:
    path = f"/api/v1/connectors/{segment(args.name)}/proof"
    if args.last or args.number is not None:
        proof = rest.call("GET", path, **({"number": str(args.number)} if args.number is not None else {}))
    else:
        proof = _await(rest, path, rest.call("POST", path, {"seconds": args.seconds}), args.seconds + _GRACE_SECONDS)
    report = proof["report"]
    if args.output != "text":
        output.print_structured(proof, args.output)
    if report is None:
        raise ClientError(Exit.UNKNOWN, f"proof {proof['number']} has no report: {proof['error'] or proof['state']}")
    if args.output == "text":
        sys.stdout.write(rest.get_text(path, number=str(proof["number"]), format="text"))
    return int(Exit.LOCAL) if report["verdict"] == "failed" else 0


def _await(rest: Rest, path: str, begun: Any, seconds: float) -> Any:
    """Return the finished proof. Prints each step as a line on standard error. Raises WAITED after `seconds`."""
    until, last_line = monotonic() + seconds, ""
    proof = begun
    while proof["state"] in ("waiting", "running"):
        if monotonic() > until:
            raise ClientError(Exit.WAITED, f"proof {proof['number']} is still running: look again with --last")
        line = proof["doing"] or "waiting for a worker"
        if proof["total"]:
            line += f": {100 * proof['done'] // proof['total']} %"
        if line != last_line:
            last_line = line
            print(line, file=sys.stderr)
        sleep(_PAUSE_SECONDS)
        proof = rest.call("GET", path, number=str(begun["number"]))
    return proof
