"""`ringfence export`: writes what a server holds to files that `ringfence apply` reads, over REST."""

import argparse
import hashlib
import json
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ringfence.client.arguments import add_server, run
from ringfence.client.desired import QUOTAS
from ringfence.client.output import ClientError, Exit
from ringfence.client.rest import Rest, segment

__all__ = ["add_arguments", "run"]

Json = Any
_LONGEST_NAME: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run_action=_export)
    parser.add_argument("-d", "--directory", help="write a file for each object here (default: to standard output)")
    parser.add_argument(
        "--kind", action="append", choices=list(_KINDS), help="only this kind; may be repeated (default: all)"
    )
    add_server(parser)


def _export(rest: Rest, args: argparse.Namespace) -> int:
    import yaml

    parts: dict[str, str] = {}
    for kind in args.kind or _KINDS:
        try:
            objects = [{"kind": kind, **document} for document in _KINDS[kind](rest)]
        except ClientError as error:
            if error.code != Exit.NOT_ALLOWED or args.kind:
                raise
            print(f"{kind}: left out, {error}", file=sys.stderr)
            continue
        for document in objects:
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
            parts[_file_name(kind, document, parts)] = text
    if args.directory is None:
        sys.stdout.write("---\n".join(parts.values()))
        return 0
    folder = Path(args.directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in parts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClientError(Exit.LOCAL, f"{folder} cannot be written: {error}") from error
    print(f"{folder}: {len(parts)} files")
    return 0


def _file_name(kind: str, document: Json, others: Container[str]) -> str:
    """Return a name that no other file has, and that every file system takes: names of connectors may be longer, and
    those of two grants the same.
    """
    parts = [str(part) for part in (document.get("name"), document.get("account"), _scope(document)) if part]
    name = f"{kind.lower()}-{quote('-'.join(parts), safe=' ')}"
    if len(name) <= _LONGEST_NAME and f"{name}.yaml" not in others:
        return f"{name}.yaml"
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return f"{name[:_LONGEST_NAME]}-{digest}.yaml"


def _scope(document: Json) -> str:
    """What tells the grants of one account apart."""
    return f"{'-'.join(document['allow'])}-{document['pattern']}" if "allow" in document else ""


def _connectors(rest: Rest) -> Iterator[Json]:
    for row in rest.get_rows("/api/v1/connectors"):
        try:
            config = rest.call("GET", f"/connectors/{segment(row['name'])}/config")
        except ClientError as error:
            if error.code not in (Exit.NOT_ALLOWED, Exit.NOT_FOUND):  # it may have been deleted in the meantime
                raise
            print(f"Connector {row['name']}: left out, {error}", file=sys.stderr)
            continue
        yield {"name": row["name"], "state": row["target"].lower(), "config": dict(sorted(config.items()))}


def _destinations(rest: Rest) -> Iterator[Json]:
    for row in rest.get_rows("/api/v1/alerts/destinations"):
        yield {
            "name": row["name"],
            "type": row["kind"],
            **{name: row[name] for name in ("url", "secret", "recipients") if row[name]},
            "enabled": row["enabled"],
        }


def _rules(rest: Rest) -> Iterator[Json]:
    for row in rest.get_rows("/api/v1/alerts/rules"):
        fields = ("pattern", "seconds", "enabled", "destinations")
        yield {"name": row["name"], "type": row["kind"], **{name: row[name] for name in fields}}


def _grants(rest: Rest) -> Iterator[Json]:
    for row in rest.get_rows("/api/v1/grants", query={"by_groups": "false"}):
        quotas = {name: row[name] for name in QUOTAS if row[name] is not None}
        yield {**{name: row[name] for name in ("account", "allow", "pattern", "topics")}, **quotas}


_KINDS: Final = {
    "AlertDestination": _destinations,
    "AlertRule": _rules,
    "Grant": _grants,
    "Connector": _connectors,
}
