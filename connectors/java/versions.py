"""Maven's order of versions, and the requirement in `connector.plugin.version` (KIP-891, "Configuration")."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

LATEST: Final = "latest"

_RELEASE: Final = 5
_OTHER: Final = 7
_NUMBER: Final = 8
_RANKS: Final = {
    **dict.fromkeys(("alpha", "a"), 0),
    **dict.fromkeys(("beta", "b"), 1),
    **dict.fromkeys(("milestone", "m"), 2),
    **dict.fromkeys(("rc", "cr"), 3),
    "snapshot": 4,
    **dict.fromkeys(("", "final", "ga", "release"), _RELEASE),
    "sp": 6,
}
_END: Final = (_RELEASE, 0, "")
_NOTHING: Final = (_END, (_NUMBER, 0, ""))
_RANGE: Final = re.compile(r"([\[(])([^\[\](),]*)(?:(,)([^\[\](),]*))?([\])])")

Order = list[tuple[int, int, str]]
T = TypeVar("T")


def order(version: str) -> Order:
    """Return a sort key: 1.0-alpha1 < 1.0-rc1 < 1.0-SNAPSHOT < 1.0 = 1.0.0.Final < 1.0-sp1 < 1.0.1 < 1.10."""
    key: Order = []
    for part in re.findall(r"\d+|[a-z]+", version.lower()):
        if part.isdigit():
            key.append((_NUMBER, int(part), ""))
            continue
        _trim(key)  # 1.0-alpha equals 1-alpha
        key.append((_RANKS.get(part, _OTHER), 0, part if part not in _RANKS else ""))
    _trim(key)
    return [*key, _END]


def _trim(key: Order) -> None:
    while key and key[-1] in _NOTHING:
        key.pop()


@dataclass(frozen=True, slots=True)
class _Span:
    low: str
    high: str
    with_low: bool
    with_high: bool

    def holds(self, version: str) -> bool:
        own = order(version)
        if self.low and (own < order(self.low) or (own == order(self.low) and not self.with_low)):
            return False
        return not (self.high and (own > order(self.high) or (own == order(self.high) and not self.with_high)))


def check(requirement: str | None) -> None:
    """Raise ValueError, with the remedy, if `requirement` is neither a version nor a Maven version range."""
    _spans(requirement or "")


def accepts(requirement: str | None, version: str) -> bool:
    """Return whether a version meets the requirement: None, "" or "latest" accepts all, 1.2 one, [1.2,2) a range.

    Raises ValueError as `check` does.
    """
    spans = _spans(requirement or "")
    return not spans or any(span.holds(version) for span in spans)


def choose(requirement: str | None, several: Iterable[T], version_of: Callable[[T], str]) -> T | None:
    """Return the newest item whose version meets the requirement, or None. Raises ValueError as `check` does."""
    accepted = (each for each in several if accepts(requirement, version_of(each)))
    return max(accepted, key=lambda each: order(version_of(each)), default=None)


def _spans(requirement: str) -> list[_Span]:
    text = re.sub(r"\s", "", requirement)
    if text in ("", LATEST):
        return []
    if not set(text) & set("[](),"):
        return [_Span(text, text, True, True)]  # in Kafka Connect, a version alone means exactly that version
    spans: list[_Span] = []
    for part in re.split(r"(?<=[\])]),", text):
        match = _RANGE.fullmatch(part)
        span = None if match is None else _span(*match.groups(default=""))
        if span is None:
            raise ValueError(
                f"{requirement} is neither a version nor a range of versions: write 1.2.3, latest, [1.2,2.0) or [1.2,)"
            )
        spans.append(span)
    return spans


def _span(opening: str, low: str, comma: str, high: str, closing: str) -> _Span | None:
    """Return a range, or None if it is empty or invalid."""
    if not comma:
        return _Span(low, low, True, True) if low and (opening, closing) == ("[", "]") else None
    if low and high and (order(low) > order(high) or (order(low) == order(high) and opening + closing != "[]")):
        return None
    return _Span(low, high, opening == "[", closing == "]")
