"""The result of the compatibility suite for a connector: a file beside its code, valid for that code only."""

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from ringfence.connectors.class_names import class_name

FILE: Final = "exactly_once_report.json"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """result: passed, failed or skipped. reason: a message that says why it did not pass."""

    check: str
    result: str
    reason: str


@dataclass(frozen=True, slots=True)
class CompatibilityReport:
    """suite: its version. digest: that of the checked code. day: in ISO 8601."""

    connector: str
    version: str
    suite: int
    digest: str
    day: str
    results: Sequence[CheckResult]

    @property
    def passed(self) -> bool:
        """Whether no check failed, and at least one passed."""
        outcomes = {each.result for each in self.results}
        return "passed" in outcomes and "failed" not in outcomes

    def summary(self) -> dict[str, object]:
        """Return, for pages and the API, `{"suite", "day", "passed", "skipped"}`; the last two are names of checks."""
        return {
            "suite": self.suite,
            "day": self.day,
            "passed": [each.check for each in self.results if each.result == "passed"],
            "skipped": [each.check for each in self.results if each.result == "skipped"],
        }


def write_report(cls: type, report: CompatibilityReport) -> Path:
    """Write the report into the connector's folder. Reports about other connectors there are kept."""
    path = _folder(cls) / FILE
    reports = _load(path)
    reports[report.connector] = {
        "version": report.version,
        "suite": report.suite,
        "digest": report.digest,
        "day": report.day,
        "results": [{"check": each.check, "result": each.result, "reason": each.reason} for each in report.results],
    }
    path.write_text(json.dumps(reports, indent=2, sort_keys=True) + "\n")
    return path


def read_report(cls: type) -> CompatibilityReport | None:
    """Return the report about exactly this code; None if there is none, or the code has changed since."""
    try:
        name = class_name(cls)
        report = _load(_folder(cls) / FILE).get(name)
        if report is None or report["digest"] != source_digest(cls):
            return None
        results = cast("list[dict[str, str]]", report["results"])
        return CompatibilityReport(
            name,
            str(report["version"]),
            int(str(report["suite"])),
            str(report["digest"]),
            str(report["day"]),
            tuple(CheckResult(each["check"], each["result"], each["reason"]) for each in results),
        )
    except (OSError, TypeError, KeyError, ValueError):  # no source file, or a file with another format
        return None


def source_digest(cls: type) -> str:
    """Return the SHA-256 of the Python files in the connector's folder, or of its module if that is not
    in a package.
    """
    module = Path(inspect.getfile(cls))
    inside = "." in cls.__module__
    hashed = hashlib.sha256()
    for path in sorted(module.parent.rglob("*.py")) if inside else [module]:
        hashed.update(f"{path.relative_to(module.parent).as_posix()}\0".encode())
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()


def _folder(cls: type) -> Path:
    return Path(inspect.getfile(cls)).parent


def _load(path: Path) -> dict[str, Mapping[str, object]]:
    try:
        reports: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return reports if isinstance(reports, dict) else {}
