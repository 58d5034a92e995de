"""Listens to the reports of a task."""

from collections.abc import Callable
from dataclasses import dataclass

from ringfence.fencing.topics.status import StatusRecord


class Heard:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.statuses: list[StatusRecord] = []
        self.events: list[dict[str, object]] = []

    def now_ms(self) -> int:
        return 1

    def status(self, record: StatusRecord, on_delivery: Callable[[bool], None] | None = None) -> None:
        self.statuses.append(record)

    def event(self, type_: str, connector: str = "", **fields: object) -> None:
        self.events.append({"type": type_, **fields})


@dataclass
class Watch:
    """A clock that stands."""

    now: float = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now
