"""`ringfence plugins dev` and `ringfence plugins verify`: for authors, on their machine, without a platform.

`verify` runs the compatibility suite, and stores its results beside the connector's code."""

import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ringfence.connectors.compatibility import CheckResult, CompatibilityReport, source_digest, write_report
from ringfence.connectors.plugins import class_path
from ringfence.local.errors import LocalError
from ringfence.testing.broker import running_broker
from ringfence.testing.checks import CHECKS, SUITE_VERSION, Check, Trial
from ringfence.testing.outcome import CheckFailed, CheckSkipped, Result
from ringfence.testing.project import Project
from ringfence.testing.scenario import Scenario

_LOOK_SECONDS: Final = 0.3
_TRIAL_SECONDS: Final = 60
_WATCHED: Final = ("*.py", "*.json", "*.toml")


def watch(folder: Path, example: Path, *, once: bool = False, wait: Callable[[float], None] = time.sleep) -> int:
    """Try the example now and after each change of a file, until Ctrl+C. Raises LocalError.

    once: try it only now; the exit code is 1 if something is wrong.
    """
    folder = folder.resolve()
    Project(folder)
    last_times: dict[Path, int] = {}
    while True:
        times = _changes(folder)
        if times == last_times:
            wait(_LOOK_SECONDS)
            continue
        changed = sorted(path.name for path in times if last_times and times[path] != last_times.get(path))
        print(f"\n{', '.join(changed) or folder.name}:", flush=True)
        last_times = times
        code = _try_out(folder, example)
        if once:
            return code


def _changes(folder: Path) -> dict[Path, int]:
    paths = (path for pattern in _WATCHED for path in folder.rglob(pattern) if ".venv" not in path.parts)
    return {path: path.stat().st_mtime_ns for path in paths if path.exists()}


def _try_out(folder: Path, example: Path) -> int:
    command = [sys.executable, "-m", "ringfence.testing.try_out", str(folder), str(folder / example)]
    try:
        return subprocess.run(command, cwd=folder, timeout=_TRIAL_SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"Ended after {_TRIAL_SECONDS} s: `start`, `poll` or `validate` does not return.")
        return 1


def verify(folder: Path) -> int:
    """Run the compatibility suite on the folder's scenarios, and write the reports. Returns 1 if a check fails.

    Raises LocalError.
    """
    project = Project(folder)
    broken = project.registry().broken
    if broken:
        raise LocalError("; ".join(f"{name} cannot be loaded: {why}" for name, why in broken.items()))
    well = True
    with running_broker() as bootstrap:
        for scenario in project.scenarios():
            print(f"{scenario.connector.__name__} {scenario.connector.version}")
            results = []
            for check, result in run_checks(scenario, bootstrap):
                results.append(result)
                print(f"  {result.result:8} {check.name}: {check.about}", flush=True)
                if result.reason:
                    print(f"           {result.reason}", flush=True)
            report = report_on(scenario, results)
            well = well and report.passed
            print(f"Report: {write_report(scenario.connector, report)}")
    return 0 if well else 1


def run_checks(
    scenario: type[Scenario], bootstrap: str, checks: Sequence[Check] = CHECKS
) -> Iterator[tuple[Check, CheckResult]]:
    """Yield each check with its result, as soon as it has ended."""
    for check in checks:
        with tempfile.TemporaryDirectory(prefix="ringfence-check-") as folder:
            yield check, run_check(check, Trial(scenario, bootstrap, Path(folder)))


def run_check(check: Check, trial: Trial) -> CheckResult:
    """Run a check. Any exception becomes its result."""
    try:
        check.run(trial)
    except CheckSkipped as reason:
        return CheckResult(check.name, Result.SKIPPED, str(reason))
    except CheckFailed as failure:
        return CheckResult(check.name, Result.FAILED, str(failure))
    except Exception:  # noqa: BLE001 - foreign code: its error is the result
        return CheckResult(check.name, Result.FAILED, traceback.format_exc())
    return CheckResult(check.name, Result.PASSED, "")


def report_on(
    scenario: type[Scenario], results: Sequence[CheckResult], now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> CompatibilityReport:
    """Return the report of these results for the connector's current code."""
    cls = scenario.connector
    return CompatibilityReport(
        class_path(cls), cls.version, SUITE_VERSION, source_digest(cls), now().date().isoformat(), tuple(results)
    )
