"""`make audit`: asks PyPI for known vulnerabilities of the packages in constraints.txt.

The exit code is 1 if a package has one. If PyPI does not answer, for some packages or for all, it is 0 with a message:
a missing network is not a finding. With `--strict` it is then 2.
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
    """Return pip-audit's report, None if it has none; and its output."""
    words = ["pip-audit", "--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off"]
    try:
        process = subprocess.run(
            [*words, "--requirement", str(ROOT / "constraints.txt")],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    try:
        report: Mapping[str, Any] = json.loads(process.stdout)
    except ValueError:
        return None, process.stderr.strip()[-500:]
    return report, process.stderr


def judge(report: Mapping[str, Any] | None, reason: str = "", *, strict: bool = False) -> tuple[int, list[str]]:
    """Return the exit code, and lines to print. report: pip-audit's JSON."""
    if report is None:
        return (UNKNOWN if strict else 0), [f"PyPI could not be asked, so nothing is known: {reason or 'no answer'}"]
    packages = report["dependencies"]
    holes = [
        f"{one['name']} {one['version']}: {hole['id']}, fixed in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for one in packages
        for hole in one.get("vulns", [])
    ]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    lines = [*holes, f"{len(packages) - len(skipped)} packages were checked, {len(holes)} vulnerabilities found"]
    if skipped or not packages:
        lines.append(
            f"PyPI did not answer for {len(skipped)} packages, so nothing is known of them: {', '.join(skipped[:5])} …"
        )
    if holes:
        return FOUND, lines
    return (UNKNOWN if strict and (skipped or not packages) else 0), lines


if __name__ == "__main__":
    code, report_lines = judge(*ask(), strict="--strict" in sys.argv)
    print("\n".join(report_lines), file=sys.stderr if code else sys.stdout)
    sys.exit(code)
