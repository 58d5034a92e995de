"""Log levels by Kafka Connect's names, and the loggers that must never get loud enough to write secrets."""

import logging
from collections.abc import Callable, Iterator

import pytest

from ringfence.fencing.errors import Invalid
from ringfence.fencing.topics import log_levels
from ringfence.fencing.topics.log_levels import ClusterLevels


@pytest.fixture(autouse=True)
def _levels_as_before() -> Iterator[None]:
    known = {name: one.level for name, one in log_levels._loggers().items()}
    yield
    for name, logger in log_levels._loggers().items():
        logger.setLevel(known.get(name, logging.NOTSET))


def test_a_level_reaches_all_loggers_of_the_namespace_and_those_to_come(unique: Callable[[str], str]) -> None:
    name = unique("space")
    below, beside = logging.getLogger(f"{name}.a.b"), logging.getLogger(f"{name}2")
    below.setLevel(logging.ERROR)
    before = beside.getEffectiveLevel()
    assert log_levels.set_level(name, "debug") == [name, f"{name}.a.b"]
    assert below.isEnabledFor(logging.DEBUG)
    assert logging.getLogger(f"{name}.later").isEnabledFor(logging.DEBUG)
    assert beside.getEffectiveLevel() == before
    assert log_levels.set_level(name, "DEBUG") == []


def test_what_was_changed_tells_when(unique: Callable[[str], str]) -> None:
    name = unique("one")
    assert log_levels.level_of(name) is None
    untouched = logging.getLogger(unique("untouched")).name
    log_levels.set_level(name, "Trace")
    told = log_levels.level_of(name)
    assert told is not None
    assert (told.level, told.last_modified is not None) == ("TRACE", True)
    assert log_levels.levels()[untouched].last_modified is None
    assert "root" in log_levels.levels()


@pytest.mark.parametrize(
    ("given", "number"), [("OFF", 100), ("fatal", 50), ("ERROR", 40), ("Warn", 30), ("INFO", 20), ("ALL", 1)]
)
def test_levels_have_kafka_connects_names(unique: Callable[[str], str], given: str, number: int) -> None:
    name = unique("level")
    log_levels.set_level(name, given)
    logger, told = logging.getLogger(name), log_levels.level_of(name)
    assert told is not None
    assert told.level == given.upper()
    assert logger.isEnabledFor(number)
    assert not logger.isEnabledFor(number - 1)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(Invalid, match="invalid log level 'critical'"):
        log_levels.set_level("a", "critical")


def test_loggers_that_write_secrets_stay_quiet() -> None:
    log_levels.set_level("root", "ALL")
    assert logging.getLogger("celery.app.trace").getEffectiveLevel() == logging.WARNING
    assert logging.getLogger("kafka.conn").getEffectiveLevel() == logging.WARNING
    assert logging.getLogger("py4j.clientserver").getEffectiveLevel() == logging.INFO
    log_levels.set_level("django", "DEBUG")
    assert logging.getLogger("django.db.backends").getEffectiveLevel() == logging.INFO
    with pytest.raises(Invalid, match="would write the data it handles"):
        log_levels.check("celery.app.trace", "INFO")
    log_levels.check("celery.app.trace", "ERROR")


def test_only_what_comes_after_the_first_look_is_applied(unique: Callable[[str], str]) -> None:
    old, new = unique("old"), unique("new")
    levels = ClusterLevels()
    assert levels.follow({old: (3, "DEBUG")}) == []
    assert levels.follow({old: (3, "DEBUG"), new: (5, "DEBUG")}) == [new]
    assert levels.follow({old: (3, "DEBUG"), new: (5, "DEBUG")}) == []
    assert levels.follow({old: (9, None), new: (8, "nonsense")}) == []
    assert log_levels.level_of(old) is None
