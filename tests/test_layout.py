"""Over 600 lines hold more than one idea, most of the time; and what tests share stands apart."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 600
LONGER_AND_ONE_IDEA = {
    "fencing/transactions/state_machine.py",  # a protocol: what is sent, and what each answer means, side by side
}

A_TEST = re.compile(r"\btests(\.\w+)*\.test_")


def line_counts() -> dict[str, int]:
    counts = {}
    for root in ("connectors", "fencing", "platform/ringfence", "tools", "benchmarks"):
        for path in (ROOT / root).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            linked = any(parent.is_symlink() for parent in path.parents if parent != ROOT)
            if "/migrations/" not in name and not linked:
                counts[name] = len(path.read_text().splitlines())
    return counts


def test_no_module_has_over_600_lines() -> None:
    long = {name for name, count in line_counts().items() if count > MOST}
    assert sorted(long - LONGER_AND_ONE_IDEA) == [], "does it hold one idea? (CONTRIBUTING.md)"
    assert sorted(LONGER_AND_ONE_IDEA - long) == [], "it is short again"


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_what_tests_share_stands_in_support_or_a_conftest() -> None:
    """No test imports another one: who changes a test changes that test only."""
    borrowed = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "tests").rglob("*.py")
        if A_TEST.search(path.read_text())  # to parse them all takes seconds
        for name in imports_of(path)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split(".")[1:-1])
    }
    assert sorted(borrowed) == []
