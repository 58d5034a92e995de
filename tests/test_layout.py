"""A smoke alarm: a module of over 600 lines holds more than one idea, most of the time."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 600


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
    assert sorted(long) == [], "does it hold one idea? (CONTRIBUTING.md)"
