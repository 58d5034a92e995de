"""What a connector logs is told: tagged, bounded, without secrets, at a level that ends by itself."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ringfence.connectors.sdk.secret_names import hiding
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.connector_logs import (
    BURST,
    LONGEST,
    PER_SECOND,
    ConnectorLevelRecord,
    LogPublisher,
    about,
)

NAME = ConnectorName("flights")
log = logging.getLogger("plugin.of.flights")


class HandClock:
    """A clock that stands still until it is moved."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Told:
    """A publisher and what it told."""

    def __init__(self, connector: str = NAME, **more: Any) -> None:
        self.clock = HandClock()
        self.lines: list[dict[str, Any]] = []
        self.publisher = LogPublisher(self._publish, connector, clock=self.clock, **more)
        self.publisher.install()

    def _publish(self, type_: str, connector: str, **fields: object) -> None:
        self.lines.append({"type": type_, "connector": connector, **fields})

    @property
    def messages(self) -> list[str]:
        return [line["message"] for line in self.lines]


@pytest.fixture
def told() -> Iterator[Told]:
    made = Told(tags={"task": 3}, redact=hiding({"db.password": "hunter22", "pin": "1", "topic": "some"}))
    yield made
    made.publisher.uninstall()


def test_a_line_carries_its_tags_and_no_secret(told: Told) -> None:
    log.warning("cannot log in with %s to %s", "hunter22", "some")
    (line,) = told.lines
    assert line == {
        "type": "log",
        "connector": "flights",
        "task": 3,
        "level": "WARN",
        "logger": "plugin.of.flights",
        "message": "cannot log in with [hidden] to some",
    }


def test_a_trace_is_part_of_the_line_and_long_ones_are_cut(told: Told) -> None:
    try:
        raise ValueError("hunter22" * LONGEST)
    except ValueError:
        log.exception("it failed")
    (text,) = told.messages
    assert text.startswith("it failed\nTraceback")
    assert "hunter22" not in text
    assert len(text) < LONGEST + 20


def test_a_flood_is_cut_short_and_counted(told: Told) -> None:
    for number in range(BURST + 50):
        log.info("line %d", number)
    assert len(told.lines) == BURST
    told.clock.now += 2
    log.info("after")
    assert told.messages[-2:] == ["50 lines before this one were left out: more than 20 a second", "after"]
    for _ in range(100):
        log.info("more")
    assert len(told.lines) == BURST + 2 + 2 * PER_SECOND - 1


def test_a_level_counts_until_its_end_and_no_longer(told: Told) -> None:
    log.debug("before")
    told.publisher.follow(ConnectorLevelRecord(NAME, "DEBUG", int((told.clock.now + 60) * 1000)))
    log.debug("during")
    told.clock.now += 61
    log.debug("after")
    log.info("at last")
    assert told.messages == ["during", "at last"]
    assert not log.isEnabledFor(logging.DEBUG)


def test_a_level_that_has_ended_or_is_nonsense_or_was_taken_back_is_none(told: Told) -> None:
    late = int((told.clock.now + 60) * 1000)
    for wanted in (ConnectorLevelRecord(NAME, "DEBUG", 5), ConnectorLevelRecord(NAME, "LOUD", late), None):
        told.publisher.follow(wanted)
        log.debug("never")
    told.publisher.follow(ConnectorLevelRecord(NAME, "ERROR", late))
    log.warning("not now")
    assert told.lines == []


def test_loggers_that_write_what_they_carry_stay_quiet(told: Told) -> None:
    told.publisher.follow(ConnectorLevelRecord(NAME, "TRACE", int((told.clock.now + 60) * 1000)))
    logging.getLogger("kafka.conn").debug("a request with everything in it")
    logging.getLogger("ringfence.reports").error("reports about reports")
    assert told.lines == []


def test_what_cannot_be_told_stops_nobody(told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    told.publisher.handle(logging.LogRecord("x", logging.INFO, "f.py", 1, "%d apples", ("no",), None))
    assert told.lines == []
    assert "apples" in capsys.readouterr().err
    log.info("and on")
    assert told.messages == ["and on"]


def test_a_worker_tells_only_what_is_about_a_connector() -> None:
    told = Told("")
    try:
        log.info("of nobody")
        with about("flights"):
            log.info("of flights")
        log.info("of nobody again")
    finally:
        told.publisher.uninstall()
    assert [(line["connector"], line["message"]) for line in told.lines] == [("flights", "of flights")]
