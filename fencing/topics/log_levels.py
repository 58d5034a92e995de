"""Log levels, set while the process runs, under Kafka Connect's names (KIP-495, KIP-976).

A level ends with the process. A `LoggerRecord` sets one in every process of the cluster.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.errors import Invalid
from ringfence.fencing.topics.config_record import ConfigRecord, Fields

if TYPE_CHECKING:
    from ringfence.fencing.topics.cluster_state import Fold

LOGGER: Final = "logger-cluster-"
ROOT: Final = "root"
_LEVELS: Final = {
    "OFF": logging.CRITICAL + 50,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}
# These write what they carry, secrets included: Celery the arguments and results of its tasks, Py4J and kafka-python
# what goes over their sockets, Django each statement with its values, httpx the addresses that alerts are sent to.
_LOUDEST: Final = {
    "celery.app.trace": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,
    "celery": logging.INFO,
    "kombu": logging.INFO,
    "amqp": logging.INFO,
    "redis": logging.INFO,
    "py4j": logging.INFO,
    "kafka": logging.WARNING,
    "django.db": logging.INFO,
    "urllib3": logging.INFO,
    "pyspark": logging.INFO,
    "httpx": logging.WARNING,
    "httpcore": logging.INFO,
}
_MAX_NAME = 249
_lock = threading.Lock()
_changed_ms: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class LoggerRecord(ConfigRecord):
    """`logger-cluster-<logger>` in the config topic: every process sets this level; None is a tombstone."""

    logger: str
    level: str | None

    PREFIXES = (LOGGER,)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "LoggerRecord":
        return cls(rest, None if value is None else str(value["level"]))

    def to_key(self) -> str:
        return f"{LOGGER}{self.logger}"

    def to_value(self) -> Fields | None:
        return None if self.level is None else {"level": self.level}

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.loggers[self.logger] = (offset, self.level)


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's effective level, and the wall clock (ms) of its last change here; None if it never changed."""

    level: str
    last_modified: int | None


def parse_level(level: str) -> str:
    """Return the level's name in capitals. Raises `Invalid` for a level that Kafka Connect does not know."""
    if level.upper() not in _LEVELS:
        raise Invalid(f"invalid log level '{level}'.")
    return level.upper()


def check(namespace: str, level: str) -> None:
    """Raise `Invalid` if the level would make the namespace's own logger write secrets, or if the name is too long."""
    if len(namespace) > _MAX_NAME:
        raise Invalid(f"The name of a logger has at most {_MAX_NAME} characters.")
    loudest = loudest_of(namespace)
    if _LEVELS[parse_level(level)] < loudest:
        raise Invalid(
            f"Below {name_of(loudest)} the logger {namespace} would write the data it handles, including secrets: "
            f"set {name_of(loudest)} or a quieter level."
        )


def levels() -> dict[str, LoggerLevel]:
    """Return every logger of this process by name, sorted; the root logger is `root`."""
    return {name: _level_of(name, logger) for name, logger in sorted(_loggers().items())}


def level_of(name: str) -> LoggerLevel | None:
    """Return one logger's level; None if this process has no such logger."""
    logger = _loggers().get(name)
    return None if logger is None else _level_of(name, logger)


def set_level(namespace: str, level: str) -> list[str]:
    """Set the level of a logger and of all below it. Returns the names whose level changed, sorted.

    A missing logger is created, so that loggers created below it later inherit the level. Loggers that would write
    secrets stay at a level at which they do not. Raises `Invalid`, see `parse_level`.
    """
    threshold = _LEVELS[parse_level(level)]
    with _lock:
        if namespace != ROOT:
            logging.getLogger(namespace)
        loggers = {
            name: logger
            for name, logger in _loggers().items()
            if namespace in (ROOT, name) or name.startswith(namespace + ".")
        }
        before = {name: logger.getEffectiveLevel() for name, logger in loggers.items()}
        for name, logger in loggers.items():
            logger.setLevel(max(threshold, loudest_of(name)))
        for name, loudest in _LOUDEST.items():
            if namespace == ROOT or name.startswith(namespace + "."):  # also those that do not exist yet
                logging.getLogger(name).setLevel(max(threshold, loudest))
        names = sorted(name for name, logger in loggers.items() if logger.getEffectiveLevel() != before[name])
        now = epoch_ms()
        _changed_ms.update(dict.fromkeys(names, now))
    return names


class ClusterLevels:
    """Applies the levels that are set after the first read of the config topic: older ones ended with their process."""

    def __init__(self) -> None:
        self._last_offset: int | None = None

    def follow(self, loggers: Mapping[str, tuple[int, str | None]]) -> list[str]:
        """loggers: name to (offset of its newest record, level). Returns the names of the loggers that were set."""
        newest = max((offset for offset, _ in loggers.values()), default=-1)
        last_offset, self._last_offset = self._last_offset, newest
        if last_offset is None or newest <= last_offset:
            return []
        due = sorted((offset, name, level) for name, (offset, level) in loggers.items() if offset > last_offset)
        return [name for _, name, level in due if level is not None and apply(LoggerRecord(name, level))]


def apply(record: LoggerRecord) -> bool:
    """Set the level of a record; False for one that no process of ours can have written."""
    if record.level is None:
        return False
    try:
        set_level(record.logger, record.level)
    except Invalid as error:
        logging.getLogger(__name__).warning("The log level of %s is left as it is: %s", record.logger, error)
        return False
    return True


def _loggers() -> dict[str, logging.Logger]:
    entries = logging.Logger.manager.loggerDict.copy()
    return {ROOT: logging.getLogger(), **{n: one for n, one in entries.items() if isinstance(one, logging.Logger)}}


def _level_of(name: str, logger: logging.Logger) -> LoggerLevel:
    return LoggerLevel(name_of(logger.getEffectiveLevel()), _changed_ms.get(name))


def number_of(level: str) -> int:
    """Return Python's number of a level that `parse_level` knows."""
    return _LEVELS[level]


def name_of(level: int) -> str:
    """Return Kafka Connect's name of a level; for one in between, the name of the next quieter level."""
    return next((name for name, value in reversed(_LEVELS.items()) if level <= value), "OFF")


def loudest_of(name: str) -> int:
    """Return the lowest level at which a logger, and all that inherit from it, write no secrets."""
    while name:
        if name in _LOUDEST:
            return _LOUDEST[name]
        name = name.rpartition(".")[0]
    return 0
