"""The state of all connectors as one sentence and one bar. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringfence.projection.health import Health
from ringfence.web.state_badges import GROUPS, Severity

_MOST_NAMES = 2
_MOTIONS = {
    Health.STARTING: "starting",
    Health.RESTARTING: "restarting",
    Health.FENCING: "being fenced",
    Health.PAUSING: "pausing",
    Health.STOPPING: "stopping",
}
_BAR = ("attention", "motion", "resting", "healthy")


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the bar. x, width: in hundredths of its length."""

    word: str
    count: int
    tone: str
    address: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Verdict:
    sentence: str
    tone: str
    shares: Sequence[Share]


def judge(
    counts: Mapping[str, int], worst: Sequence[str], *, stale: bool = False, placeless: Sequence[str] = ()
) -> Verdict:
    """counts: connectors by health; worst: names of those that need attention, the worst first.

    placeless: names of those in motion without a slot, which wait until one becomes free.
    """
    shares = _shares(counts)
    total = sum(counts.values())
    sick = next((share.count for share in shares if share.tone == Severity.BAD), 0)
    moving = next((share.count for share in shares if share.tone == Severity.MOTION), 0)
    if stale:
        return Verdict("The connectors' states are unknown: no worker reports.", Severity.UNKNOWN, shares)
    if not total:
        return Verdict("There are no connectors yet.", Severity.REST, shares)
    if sick:
        verb = "needs" if sick == 1 else "need"
        return Verdict(f"{_of(sick, total)} {verb} attention: {_names(worst, sick)}.", Severity.BAD, shares)
    if placeless:
        verb = "waits" if len(placeless) == 1 else "wait"
        sentence = f"{_of(len(placeless), total)} {verb} for a slot: {_names(placeless, len(placeless))}."
        return Verdict(sentence, Severity.WARN, shares)
    if moving:
        verb = "is" if moving == 1 else "are"
        return Verdict(f"{_of(moving, total)} {verb} {_motions(counts)}.", Severity.MOTION, shares)
    sentence = "All is well: the connector is" if total == 1 else f"All is well: all {total:,} connectors are"
    return Verdict(f"{sentence} in the requested state.", Severity.OK, shares)


def _of(part: int, total: int) -> str:
    return "The only connector" if total == 1 else f"{part:,} of {total:,} connectors"


def _motions(counts: Mapping[str, int]) -> str:
    kinds = [(counts[health], word) for health, word in _MOTIONS.items() if counts.get(health)]
    return kinds[0][1] if len(kinds) == 1 else ", ".join(f"{word} ({count:,})" for count, word in kinds)


def _names(worst: Sequence[str], sick: int) -> str:
    names = worst[: min(_MOST_NAMES, sick)]
    more = sick - len(names)
    if more > 0:
        return ", ".join(names) + f" and {more:,} more"
    return " and ".join(names)


def _shares(counts: Mapping[str, int]) -> list[Share]:
    """Return the non-empty shares, in the order of GROUPS. Unknown states need attention."""
    total = sum(counts.values())
    known_healths = {str(health) for _, _, healths in GROUPS.values() for health in healths}
    shares, x = [], 0.0
    for key in _BAR:
        word, tone, healths = GROUPS[key]
        count = sum(counts.get(health, 0) for health in healths)
        if Health.UNKNOWN in healths:
            count += sum(number for health, number in counts.items() if str(health) not in known_healths)
        if count:
            width = 100 * count / total
            word = "Needs attention" if key == "attention" and count == 1 else word
            shares.append(Share(word, count, str(tone), f"/ui/connectors?state={key}", round(x, 2), round(width, 2)))
            x += width
    return shares
