"""One reader of the config topic for several attempts, each of which knows its own connector."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from ringfence.fencing.clock import Deadline, boot_seconds
from ringfence.fencing.errors import Retriable, TopicLost
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.task import joint_reads
from ringfence.fencing.task.joint_reads import ConfigFollower
from ringfence.fencing.topics.config_records import ConfigRecord, ConnectorRecord, encode
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.topic_ids import Topics

ONE, TWO = ConnectorName("one"), ConnectorName("two")
SOON = Deadline.after(60)


class Log:
    """A config topic that the test writes. trouble: raised after what is there was read."""

    topic = "c"

    def __init__(self, *_: object, **__: object) -> None:
        self.ahead: list[LogRecord] = []
        self.positions = {0: 0}
        self.trouble: Exception | None = None
        self._unread: list[LogRecord] = []
        self._end = 0

    def write(self, *records: ConfigRecord) -> list[LogRecord]:
        """Write committed records; return them."""
        new = [LogRecord(0, self._end + n, *encode(record), 0) for n, record in enumerate(records)]
        self._end += len(new)
        self._unread += new
        return new

    def hold(self, *records: ConfigRecord) -> None:
        """Write records behind somebody's open transaction: they are shown ahead, and read again later."""
        self.ahead = self.write(*records)

    def catch_up(self, _deadline: Deadline) -> Iterator[LogRecord]:
        for record in [each for each in self._unread if each not in self.ahead]:
            self._unread.remove(record)
            self.positions = {0: record.offset + 1}
            yield record
        if self.trouble is not None:
            raise self.trouble

    def release(self) -> None:
        self.ahead = []

    def close(self) -> None:
        pass


class Heard:
    is_calm = True

    def __init__(self, connector: ConnectorName) -> None:
        self.connector = connector
        self.states: list[ConnectorState] = []
        self.offsets_topics: frozenset[str] = frozenset()
        self.lost: list[str] = []
        self.turns = 0

    def take(self, state: ConnectorState, offsets_topics: frozenset[str]) -> None:
        self.states.append(state)
        self.offsets_topics = offsets_topics

    def lose(self, why: str) -> None:
        self.lost.append(why)

    def turn(self) -> None:
        self.turns += 1

    @property
    def settings(self) -> Sequence[object]:
        """The configurations that it has heard of, without repetitions."""
        configs = [(state.config or {}).get("n") for state in self.states]
        return [each for n, each in enumerate(configs) if n == 0 or each != configs[n - 1]]


class Broken(Heard):
    def turn(self) -> None:
        raise RuntimeError("its report fails")


def config(connector: ConnectorName, n: int, **more: str) -> ConnectorRecord:
    return ConnectorRecord(connector, {"name": connector, "n": str(n), **more})


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(joint_reads, "TopicLog", lambda *_, **__: log)
    return log


def follower(*, keeps_all: bool = True) -> ConfigFollower:
    return ConfigFollower(Connection("b:9092"), Topics("c", "o", "s", "e"), keeps_all=keeps_all)


def test_each_attempt_hears_of_its_own_connector_also_one_that_joins_later(log: Log) -> None:
    shared, first = follower(), Heard(ONE)
    shared.join(first)
    log.write(config(ONE, 1), config(TWO, 1))
    shared.refresh(SOON)
    second = Heard(TWO)
    shared.join(second)
    log.write(config(TWO, 2))
    shared.refresh(SOON)
    assert first.settings == [None, "1"]
    assert second.settings == ["1", "2"]
    shared.leave(first)
    log.write(config(ONE, 2))
    shared.refresh(SOON)
    assert first.settings == [None, "1"]


def test_alone_it_keeps_nothing_of_other_connectors(log: Log) -> None:
    own, attempt = follower(keeps_all=False), Heard(ONE)
    own.join(attempt)
    log.write(config(ONE, 1), config(TWO, 1, **{"offsets.storage.topic": "of-two"}))
    own.refresh(SOON)
    assert attempt.settings == [None, "1"]
    assert attempt.offsets_topics == {"of-two"}
    assert list(own._stable) == [ONE]


def test_what_is_held_ahead_counts_and_is_not_applied_twice(log: Log) -> None:
    shared, attempt = follower(), Heard(ONE)
    shared.join(attempt)
    log.write(config(ONE, 1))
    log.hold(config(ONE, 2))
    shared.refresh(SOON)
    assert attempt.settings == [None, "1", "2"] or attempt.settings == [None, "2"]
    late = Heard(ONE)
    shared.join(late)
    assert late.settings == ["2"]
    assert (shared._stable[ONE].config or {})["n"] == "1"
    log.release()
    log.write(config(ONE, 3))
    shared.refresh(SOON)
    assert attempt.settings[-1] == "3"
    assert shared._ahead == {}


def test_what_was_read_before_an_error_is_kept(log: Log) -> None:
    shared, attempt = follower(), Heard(ONE)
    shared.join(attempt)
    log.write(config(ONE, 1))
    log.trouble = Retriable("no broker answers")
    with pytest.raises(Retriable):
        shared.refresh(SOON)
    log.trouble = None
    shared.refresh(SOON)
    assert attempt.settings == [None, "1"]


def test_without_its_topic_all_are_lost_and_so_is_who_comes_later(log: Log) -> None:
    shared, first, second = follower(), Heard(ONE), Heard(TWO)
    shared.join(first)
    shared.join(second)
    log.trouble = TopicLost("it is another one")
    shared.refresh(SOON)
    third = Heard(ONE)
    shared.join(third)
    assert first.lost == second.lost == ["it is another one"]
    assert third.lost
    assert shared.is_over


def test_after_a_long_sleep_all_are_lost(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, attempt = follower(), Heard(ONE)
    shared.join(attempt)
    shared.refresh(SOON)
    assert not attempt.lost
    later = boot_seconds() + 2 * 3600
    monkeypatch.setattr(joint_reads, "boot_seconds", lambda: later)
    shared.refresh(SOON)
    assert attempt.lost == ["it was suspended for 120 minutes"]


def test_an_attempt_that_cannot_follow_is_lost_alone(log: Log) -> None:
    shared, broken, good = follower(), Broken(ONE), Heard(TWO)
    shared.join(broken)
    shared.join(good)
    shared._tell_turn()
    assert broken.lost == ["it cannot follow the config topic any more"]
    assert (good.turns, good.lost) == (1, [])


def test_an_attempt_that_has_left_has_no_turn_any_more(log: Log) -> None:
    shared, first, second = follower(), Heard(ONE), Heard(TWO)

    class Leaving(Heard):
        def turn(self) -> None:
            leaver.start()
            leaver.join(0.2)
            assert leaver.is_alive(), "it waits for the end of this turn"
            super().turn()

    def leave() -> None:
        shared.leave(first)
        shared.leave(leaving)

    leaving, leaver = Leaving(ONE), threading.Thread(target=leave)
    for attempt in (leaving, first, second):
        shared.join(attempt)
    shared._tell_turn()
    leaver.join(60)
    shared._tell_turn()
    assert leaving.turns == 1
    assert first.turns <= 1
    assert second.turns == 2


def test_an_unreadable_configuration_stops_its_connector_alone(log: Log) -> None:
    shared, first, second = follower(), Heard(ONE), Heard(TWO)
    shared.join(first)
    shared.join(second)
    (record,) = log.write(config(ONE, 1))
    log._unread[0] = LogRecord(0, record.offset, record.key, b"{", 0)
    log.write(config(TWO, 1))
    shared.refresh(SOON)
    assert (first.states[-1].unreadable or "").startswith("c@0: key 'connector-one' holds 1 bytes")
    assert second.states[-1].unreadable is None
