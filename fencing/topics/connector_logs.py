"""The log lines of one connector, published in the events topic: tagged, limited, without secrets.

A task's process belongs to one connector, so all its log lines do, unless it runs several tasks (`SharedLogs`); a
worker says with `about` which connector its lines are about. The level is in the config topic. It ends at a given time,
in every process by its own clock.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ringfence.fencing.clock import SYSTEM_CLOCK, Clock
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields, parse_integer
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.log_levels import loudest_of, name_of, number_of

DEFAULT: Final = "INFO"
LEVELS: Final = ("ERROR", "WARN", "INFO", "DEBUG", "TRACE")
LONGEST: Final = 4000
PER_SECOND: Final = 20
BURST: Final = 200
_ABOUT_REPORTS: Final = "ringfence.reports"
"""Errors of reports are not reported: that would never end."""

_about: ContextVar[str] = ContextVar("connector", default="")


@dataclass(frozen=True, slots=True)
class ConnectorLevelRecord(ConnectorScopedRecord):
    """`log-level-<c>` in the config topic: the level of its tasks until `until_ms`; level None is a tombstone."""

    connector: ConnectorName
    level: str | None
    until_ms: int = 0

    PREFIXES = ("log-level-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "ConnectorLevelRecord | None":
        if not rest:
            return None
        if value is None:
            return cls(ConnectorName(rest), None)
        return cls(ConnectorName(rest), str(value["level"]), parse_integer(value, "until_ms"))

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"log-level-{self.connector}"

    def to_value(self) -> Fields | None:
        return None if self.level is None else {"level": self.level, "until_ms": self.until_ms}

    @classmethod
    def tombstone_of(cls, connector: ConnectorState) -> "ConnectorLevelRecord | None":
        return cls(connector.name, None) if connector.log_level is not None else None

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        return replace(state, log_level=None if self.level is None else self)


@contextmanager
def about(connector: str) -> Iterator[None]:
    """Attribute what this thread logs inside the block to the connector."""
    token = _about.set(connector)
    try:
        yield
    finally:
        _about.reset(token)


def current_connector() -> str:
    """Return the connector of `about`; "" for none."""
    return _about.get()


class Publish(Protocol):
    """`Reporter.event`."""

    def __call__(self, type_: str, connector: str, **fields: object) -> None: ...


class LogPublisher(logging.Handler):
    """Publishes log records as events: `publish` gets connector, level, logger, message and the tags. Thread-safe.

    Limited to PER_SECOND lines on average and BURST at once; the next line says how many were left out.
    """

    def __init__(
        self,
        publish: Publish,
        connector: str = "",
        tags: Mapping[str, object] | None = None,
        redact: Callable[[str], str] = str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """connector: if "", only what is logged inside of `about` is published."""
        super().__init__(number_of(DEFAULT))
        self._publish = publish
        self._connector = connector
        self._tags = dict(tags or {})
        self._redact = redact
        self._clock = clock
        self._until_ms = 0
        self._tokens, self._refilled_at = float(BURST), clock.monotonic()
        self._dropped = 0
        self._busy = threading.local()
        self._others: tuple[logging.Handler, int] | None = None
        self.on_level: Callable[[], None] = lambda: None
        """Called after the level has changed."""

    def install(self) -> None:
        """Listen to all that this process logs. If nothing else does, warnings still go to standard error."""
        root = logging.getLogger()
        console = logging.StreamHandler()
        console.setLevel(logging.WARNING)
        self._others = (console, root.level)
        if not root.handlers:
            root.addHandler(console)
        root.addHandler(self)
        root.setLevel(min(root.level or logging.WARNING, self.level))

    def uninstall(self) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        if self._others is not None:
            console, level = self._others
            root.removeHandler(console)
            root.setLevel(level)

    def follow(self, record: ConnectorLevelRecord | None) -> None:
        """Apply a level, until it ends."""
        until_ms = record.until_ms if record and record.level else 0
        if record is None or record.level not in LEVELS or self._now_ms() >= until_ms:
            self._set(DEFAULT, 0)
        else:
            self._set(record.level, until_ms)

    def _set(self, level: str, until_ms: int) -> None:
        self._until_ms = until_ms
        number = number_of(level)
        self.setLevel(number)
        if self._others is not None:
            logging.getLogger().setLevel(min(self._others[1] or logging.WARNING, number))
        self.on_level()

    def redact(self, text: str) -> str:
        return self._redact(text)

    def _now_ms(self) -> int:
        return int(self._clock.wall() * 1000)

    def emit(self, record: logging.LogRecord) -> None:
        connector = self._connector or _about.get()
        if not connector or record.name.startswith(_ABOUT_REPORTS) or getattr(self._busy, "now", False):
            return
        if self._until_ms and self._now_ms() >= self._until_ms:
            self._set(DEFAULT, 0)
        if record.levelno < max(self.level, loudest_of(record.name)) or not self._take():
            return
        self._busy.now = True
        try:
            self._tell(connector, record)
        except Exception:  # noqa: BLE001 - a message whose arguments do not fit it, or whose text cannot be made
            self.handleError(record)
        finally:
            self._busy.now = False

    def _take(self) -> bool:
        """Return whether one more line may be published now. Call it with the handler's lock."""
        now = self._clock.monotonic()
        self._tokens = min(float(BURST), self._tokens + (now - self._refilled_at) * PER_SECOND)
        self._refilled_at = now
        if self._tokens < 1:
            self._dropped += 1
            return False
        self._tokens -= 1
        return True

    def _tell(self, connector: str, record: logging.LogRecord) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            text = f"{dropped} lines before this one were left out: more than {PER_SECOND} a second"
            self._publish("log", connector, **self._tags, level="WARN", logger=__name__, message=text)
        text = self._redact(self.format(record))
        cut = text if len(text) <= LONGEST else text[:LONGEST] + " … (cut)"
        level = name_of(record.levelno)
        self._publish("log", connector, **self._tags, level=level, logger=record.name, message=cut)


_of_task: ContextVar[LogPublisher | None] = ContextVar("publisher of the task", default=None)


class SharedLogs(logging.Handler):
    """Passes each line on to the publisher of the task whose thread has logged it, in a process of several tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._publishers: set[LogPublisher] = set()
        self._changing = threading.Lock()

    def install(self) -> None:
        """Listen to all that this process logs."""
        logging.getLogger().addHandler(self)

    @contextmanager
    def publishing(self, publisher: LogPublisher) -> Iterator[None]:
        """Attribute what this thread logs inside the block, and threads that it starts, to the task."""
        publisher.on_level = self._set_level
        self._change(self._publishers.add, publisher)
        token = _of_task.set(publisher)
        try:
            yield
        finally:
            _of_task.reset(token)
            self._change(self._publishers.discard, publisher)

    def _change(self, change: Callable[[LogPublisher], None], publisher: LogPublisher) -> None:
        with self._changing:
            change(publisher)
        self._set_level()

    def _set_level(self) -> None:
        """Let lines of the loudest task pass; those of the others end at their publishers."""
        with self._changing:
            levels = [each.level for each in self._publishers]
        logging.getLogger().setLevel(min([*levels, logging.WARNING]))

    def emit(self, record: logging.LogRecord) -> None:
        publisher = _of_task.get()
        if publisher is not None and record.levelno >= publisher.level:
            publisher.handle(record)


def redact_for_task(text: str) -> str:
    """Return the text without the secrets of the task whose thread this is."""
    publisher = _of_task.get()
    return text if publisher is None else publisher.redact(text)
