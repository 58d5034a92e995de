"""Answers as tables for people, as JSON or YAML for scripts."""

import json
import sys
from collections.abc import Iterable, Sequence


def structured(value: object, form: str) -> None:
    """Print a value as `json` or `yaml`."""
    if form == "json":
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    else:
        import yaml

        text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
    sys.stdout.write(text)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns as wide as their longest value."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
