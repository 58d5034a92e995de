"""Prometheus' text format, version 0.0.4."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LABEL = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})

Sample = tuple[str, float]
"""Labels as `labels` writes them, and the value."""


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    UNTYPED = "untyped"
    """A counter whose name, which is Kafka Connect's, does not end in `_total`: libraries would add that."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its full name, and HELP in two parts: the plain meaning, and when it is bad ("" where it never is)."""

    name: str
    kind: Kind
    meaning: str
    bad: str

    @property
    def help(self) -> str:
        return f"{self.meaning} Bad when {self.bad}." if self.bad else self.meaning


def labels(names: Mapping[str, object]) -> str:
    """`{connector="a",task="0"}`, escaped; "" for none."""
    pairs = ",".join(f'{name}="{str(value).translate(_LABEL)}"' for name, value in names.items())
    return f"{{{pairs}}}" if pairs else ""


def number(value: float) -> str:
    """Integers without a point, others as short as they stay themselves."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def render(families: Iterable[tuple[Family, list[Sample]]]) -> str:
    """The exposition. Families without a sample are named all the same: their HELP says what may come."""
    lines: list[str] = []
    for family, samples in families:
        name = family.name
        lines += (f"# HELP {name} {family.help.translate(_HELP)}", f"# TYPE {name} {family.kind}")
        lines += [f"{name}{labelled} {number(value)}" for labelled, value in samples]
    return "\n".join(lines) + "\n"
