"""`ringfence connectors`, over REST."""

import argparse
import sys
from typing import Any

from ringfence.client import documents, events, incremental_snapshots, output, plans, proofs, states, versions
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
    incremental_snapshots.add(actions)
    proofs.add(actions)
    versions.add(actions)
    events.add(actions)
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
