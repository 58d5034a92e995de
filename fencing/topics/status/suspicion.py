"""`suspicion-<worker>`: what others think of a worker that was silent; `answer-<worker>`: its sign of life.

Whoever watches a worker asks it with the next `question`. A worker that reads a question answers it at once, so an
answer shows that it runs, and that it reaches Kafka.
"""

from dataclasses import dataclass
from enum import StrEnum

from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.topics.status_entry import Fields, StatusEntry, StatusFold, parse_number


class Trust(StrEnum):
    """Whether a worker gets tasks."""

    TRUSTED = "trusted"
    SUSPECTED = "suspected"
    """It was silent: its tasks are placed elsewhere."""
    CALMING = "calming"
    """It is back, and keeps the tasks that it has. It gets others once it was calm for a while."""


@dataclass(frozen=True, slots=True)
class SuspicionRecord(StatusEntry):
    """times: how often this incarnation was suspected lately. question: the newest one, 0 for none. by: the worker that
    wrote it; since_ms: when it was first trusted, suspected or calming, by that worker's clock, for people to see.
    """

    worker: WorkerId
    incarnation: Incarnation
    trust: Trust = Trust.TRUSTED
    times: int = 0
    question: int = 0
    by: str = ""
    since_ms: int = 0

    PREFIX = "suspicion-"

    @classmethod
    def parse(cls, rest: str, value: Fields) -> "SuspicionRecord":
        return cls(
            WorkerId(rest),
            Incarnation(str(value["incarnation"])),
            Trust(str(value["trust"])),
            parse_number(value, "times", 0),
            parse_number(value, "question", 0),
            str(value.get("by", "")),
            parse_number(value, "since_ms", 0),
        )

    def to_key(self) -> str:
        return f"{self.PREFIX}{self.worker}"

    def to_value(self) -> Fields:
        return {
            "incarnation": self.incarnation,
            "trust": self.trust,
            "times": self.times,
            "question": self.question,
            "by": self.by,
            "since_ms": self.since_ms,
        }

    def apply_to(self, fold: StatusFold) -> None:
        fold.suspicions[self.worker] = self

    @classmethod
    def remove(cls, rest: str, fold: StatusFold) -> None:
        fold.suspicions.pop(WorkerId(rest), None)


@dataclass(frozen=True, slots=True)
class AnswerRecord(StatusEntry):
    """The newest question that this incarnation of a worker has answered."""

    worker: WorkerId
    incarnation: Incarnation
    question: int

    PREFIX = "answer-"

    @classmethod
    def parse(cls, rest: str, value: Fields) -> "AnswerRecord":
        return cls(WorkerId(rest), Incarnation(str(value["incarnation"])), parse_number(value, "question", 0))

    def to_key(self) -> str:
        return f"{self.PREFIX}{self.worker}"

    def to_value(self) -> Fields:
        return {"incarnation": self.incarnation, "question": self.question}

    def apply_to(self, fold: StatusFold) -> None:
        fold.answers[self.worker] = self

    @classmethod
    def remove(cls, rest: str, fold: StatusFold) -> None:
        fold.answers.pop(WorkerId(rest), None)
