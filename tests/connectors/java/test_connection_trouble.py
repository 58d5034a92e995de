"""What a plugin's log says of its source: a task whose plugin raises nothing is shown as trying again by it."""

import logging
from collections.abc import Callable

import pytest

from ringfence.connectors.java.connection_trouble import PREFIX, ConnectionTrouble

KAFKA = (
    "[Consumer clientId=consumer-null-1, groupId=null] Connection to node -1 (localhost/127.0.0.1:9) could not be "
    "established. Node may not be available."
)
MONGODB = """Exception in monitor thread while connecting to server localhost:27017
com.mongodb.MongoSocketOpenException: Exception opening socket
\tat com.mongodb.internal.connection.SocketStream.open(SocketStream.java:85)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)"""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trouble(clock: Clock) -> ConnectionTrouble:
    return ConnectionTrouble(clock)


Log = Callable[[int, str, float, int], None]


@pytest.fixture
def log(trouble: ConnectionTrouble, clock: Clock) -> Log:
    def write(level: int, text: str, every: float, times: int) -> None:
        for number in range(times):
            clock.now += every if number else 0.0
            trouble.note(level, text)

    return write


def test_a_client_that_logs_each_try_says_that_its_source_is_away(log: Log, trouble: ConnectionTrouble) -> None:
    log(logging.WARNING, KAFKA, 1.0, 3)
    assert trouble.cause == "", "two seconds may be a connection that is opened again"
    log(logging.WARNING, KAFKA, 1.0, 4)
    assert trouble.cause == (
        f"{PREFIX}Connection to node -1 (localhost/127.0.0.1:9) could not be established. Node may not be available."
    )


def test_one_line_says_nothing(log: Log, trouble: ConnectionTrouble, clock: Clock) -> None:
    log(logging.ERROR, KAFKA, 1.0, 1)
    clock.now += 10
    assert trouble.cause == ""


def test_an_exception_counts_where_the_library_only_informs(log: Log, trouble: ConnectionTrouble) -> None:
    log(logging.INFO, MONGODB, 10.0, 2)
    first = MONGODB.partition("\n")[0]
    assert trouble.cause == f"{PREFIX}{first} (Connection refused)"


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (logging.INFO, KAFKA),
        (logging.DEBUG, MONGODB),
        (logging.WARNING, "The configuration 'x' was supplied but isn't a known config."),
        (logging.ERROR, "Parsing failed\njava.lang.NumberFormatException: x"),
    ],
)
def test_other_lines_say_nothing_of_the_source(log: Log, trouble: ConnectionTrouble, level: int, text: str) -> None:
    log(level, text, 2.0, 5)
    assert trouble.cause == ""


def test_records_end_it_and_so_does_silence(log: Log, trouble: ConnectionTrouble, clock: Clock) -> None:
    log(logging.WARNING, KAFKA, 1.0, 6)
    trouble.clear()
    assert trouble.cause == ""
    log(logging.WARNING, KAFKA, 1.0, 6)
    clock.now += 15
    assert trouble.cause
    clock.now += 0.1
    assert trouble.cause == ""
    log(logging.WARNING, KAFKA, 1.0, 1)
    assert trouble.cause == "", "another outage begins anew"


def test_a_library_that_waits_longer_before_each_try_is_waited_for(
    log: Log, trouble: ConnectionTrouble, clock: Clock
) -> None:
    log(logging.WARNING, KAFKA, 14.0, 2)
    clock.now += 30
    assert trouble.cause
    log(logging.WARNING, KAFKA, 1.0, 1)
    clock.now += 70
    assert trouble.cause
    clock.now += 60
    assert trouble.cause == ""
