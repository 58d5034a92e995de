"""`ringfence audit`: exports the audit trail from the server's database, for storage elsewhere."""

import argparse
import json
import sys

from ringfence.commands.server_arguments import add_data_argument, connect
from ringfence.local.errors import LocalError
from ringfence.subcommands import add_command

_TEXTS = ("before", "after", "changed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    export = add_command(actions, "export", "write every entry as a line of JSON to standard output, oldest first")
    export.add_argument("--since-id", type=int, default=0, metavar="N", help="only entries after the one with this id")
    add_data_argument(export)


def run(args: argparse.Namespace) -> int:
    """Export the trail, with secrets masked as in the pages. The last line's `id` is the next export's --since-id."""
    connect(args.data)
    from django.db import Error as DatabaseError
    from django.forms.models import model_to_dict

    from ringfence.audit.models import AuditEntry

    try:
        for row in AuditEntry.objects.filter(pk__gt=args.since_id).order_by("pk").iterator(chunk_size=1000):
            line = {"id": row.pk, **model_to_dict(row)}
            line |= {name: json.loads(line[name]) for name in _TEXTS}
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    except DatabaseError as error:
        raise LocalError(f"The trail cannot be read: {error}") from error
    return 0
