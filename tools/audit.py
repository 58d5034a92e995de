"""`make audit`: ask PyPI for known holes of the packages in constraints.txt.

Ends with 1 where one has a hole. Where PyPI's answers cannot be had, for some or for all, it ends with 0 and says so:
no network is no finding. With `--strict` that ends with 2.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
_SECONDS: Final = 600
FOUND, UNKNOWN = 1, 2


def ask() -> tuple[Mapping[str, Any] | None, str]:
    """What pip-audit found, None where it found out nothing; and what it said."""
    words = ["pip-audit", "--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off"]
    try:
        told = subprocess.run(
            [*words, "--requirement", str(ROOT / "constraints.txt")],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    try:
        found: Mapping[str, Any] = json.loads(told.stdout)
    except ValueError:
        return None, told.stderr.strip()[-500:]
    return found, told.stderr


def judge(report: Mapping[str, Any] | None, said: str = "", *, strict: bool = False) -> tuple[int, list[str]]:
    """The exit code, and lines for people. report: pip-audit's JSON."""
    if report is None:
        return (UNKNOWN if strict else 0), [f"Nothing could be asked, so nothing is known: {said or 'no answer'}"]
    packages = report["dependencies"]
    holes = [
        f"{one['name']} {one['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for one in packages
        for hole in one.get("vulns", [])
    ]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    lines = [*holes, f"{len(packages) - len(skipped)} packages were looked at, {len(holes)} holes found"]
    if skipped or not packages:
        lines.append(
            f"PyPI answered nothing for {len(skipped)}, so nothing is known of them: {', '.join(skipped[:5])} …"
        )
    if holes:
        return FOUND, lines
    return (UNKNOWN if strict and (skipped or not packages) else 0), lines


if __name__ == "__main__":
    code, told = judge(*ask(), strict="--strict" in sys.argv)
    print("\n".join(told), file=sys.stderr if code else sys.stdout)
    sys.exit(code)
