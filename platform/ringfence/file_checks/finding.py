"""What a check says about one setting of a file, and how it is printed."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.sdk.secret_names import hiding

_LOGIN: Final = re.compile(r"://[^/\s@]*@")


class Kind(StrEnum):
    """The kinds of findings."""

    UNKNOWN = "unknown"
    RENAMED = "renamed"
    IGNORED = "ignored"
    IMPOSSIBLE = "not possible"
    MISSING = "missing"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. setting: "" for the file as a whole; text: what is wrong and the remedy; fatal: whether it must be
    changed, so that it starts, or does what its author means.
    """

    kind: Kind
    setting: str
    text: str
    fatal: bool = True

    def line(self) -> str:
        """Return it as one line: the level, the kind, the setting and the remedy."""
        level = "change" if self.fatal else "note"
        where = f"{self.setting}: " if self.setting and self.setting not in self.text else ""
        return _printable(f"{level}: {self.kind}: {where}{self.text}")


@dataclass(frozen=True, slots=True)
class Report:
    """What a file, or a connector in it, is, and what to change."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not any(finding.fatal for finding in self.findings)

    def lines(self) -> list[str]:
        """Return it for people: what it is, and one line for each finding, the important ones first."""
        count = sum(finding.fatal for finding in self.findings)
        verdict = "nothing to change" if not count else f"{count} to change"
        ordered = sorted(self.findings, key=lambda finding: not finding.fatal)
        return [_printable(f"{self.subject}: {verdict}"), *(f"  {finding.line()}" for finding in ordered)]


def without_secrets(
    findings: Iterable[Finding], config: Mapping[str, str], hide: Callable[[str], str] = str
) -> tuple[Finding, ...]:
    """Return the findings without values of settings whose names say that they are secret, and without logins in
    addresses. hide: removes further secrets.
    """
    by_name = hiding(config)
    return tuple(
        replace(finding, text=_LOGIN.sub(f"://{HIDDEN}@", hide(by_name(finding.text)))) for finding in findings
    )


def _printable(text: str) -> str:
    """Return the text as one line, without characters that a terminal obeys."""
    return "".join(char if char.isprintable() else " " for char in text)


def explain_unknown(name: str, known_names: Sequence[str]) -> str:
    """Return the remedy for a setting that has no meaning, with the name that may be meant."""
    close = get_close_matches(name, known_names, 1, 0.85)
    return f"there is no such setting. Is {close[0]} meant?" if close else "there is no such setting. Remove it."
