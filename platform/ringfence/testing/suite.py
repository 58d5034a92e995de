"""Runs the compatibility suite, and stores its results beside the connector's code."""

import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ringfence.connectors.compatibility import CheckResult, CompatibilityReport, source_digest
from ringfence.connectors.plugins import class_path
from ringfence.testing.checks import CHECKS, SUITE_VERSION, Check, Trial
from ringfence.testing.outcome import CheckFailed, CheckSkipped, Result
from ringfence.testing.scenario import Scenario


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
