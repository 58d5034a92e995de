"""A module holds one idea, and none has over 300 lines."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 300


def lines_of() -> dict[str, int]:
    found = {}
    for root in ("connectors", "fencing", "platform/ringfence", "tools", "benchmarks"):
        for path in (ROOT / root).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            linked = any(parent.is_symlink() for parent in path.parents if parent != ROOT)
            if "/migrations/" not in name and not linked:
                found[name] = len(path.read_text().splitlines())
    return found


def test_no_module_has_over_300_lines() -> None:
    long = {name for name, count in lines_of().items() if count > MOST}
    assert sorted(long) == [], "split it by idea (CONTRIBUTING.md)"


def test_half_of_the_modules_have_fewer_than_90_lines() -> None:
    counts = sorted(lines_of().values())
    assert counts[len(counts) // 2] < 90
