"""Formats Prometheus' text format, version 0.0.4."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LABEL = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})

Sample = tuple[str, float]
"""Labels in the format of `labels`, and the value. A histogram's labels come after a suffix: `_bucket{le="1"}`."""


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    UNTYPED = "untyped"
    """A counter with Kafka Connect's name, which does not end in `_total`: client libraries would append that."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its full name, and HELP in two parts: the meaning, and when it is bad ("" for never)."""

    name: str
    kind: Kind
    meaning: str
    bad: str

    @property
    def help(self) -> str:
        return f"{self.meaning} Bad when {self.bad}." if self.bad else self.meaning


Families = list[tuple[Family, list[Sample]]]


def labels(names: Mapping[str, object]) -> str:
    """Format `{connector="a",task="0"}`, escaped; "" for none."""
    pairs = ",".join(f'{name}="{str(value).translate(_LABEL)}"' for name, value in names.items())
    return f"{{{pairs}}}" if pairs else ""


def number(value: float) -> str:
    """Format integers without a decimal point, others as short as possible without loss."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def render(families: Iterable[tuple[Family, list[Sample]]]) -> str:
    """Format the exposition. Families without samples are included: their HELP describes what may come."""
    lines: list[str] = []
    for family, samples in families:
        name = family.name
        lines += (f"# HELP {name} {family.help.translate(_HELP)}", f"# TYPE {name} {family.kind}")
        lines += [f"{name}{labelled} {number(value)}" for labelled, value in samples]
    return "\n".join(lines) + "\n"
