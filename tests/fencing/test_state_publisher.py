"""One state of the config topic for several readers of one process, and for a leader that adds what it has written."""

import random
import threading
from collections.abc import Sequence

import pytest

from ringfence.fencing.clock import boot_seconds
from ringfence.fencing.errors import Retriable, Unreadable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics import config_log
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import Outdated, StatePublisher, Version, fold
from ringfence.fencing.topics.config_records import ConnectorRecord, encode


def at(offset: int, name: str = "", config: dict[str, str] | None = None, *, deleted: bool = False) -> LogRecord:
    name = name or f"c{offset}"
    record = ConnectorRecord(ConnectorName(name), None if deleted else (config or {"n": str(offset)}))
    return LogRecord(0, offset, *encode(record), 0)


def names(version: Version) -> set[str]:
    return {one.name for one in version.state.existing()}


def test_what_two_readers_have_read_counts_once() -> None:
    seen: list[int] = []
    publisher = StatePublisher("t", new_watch=lambda: lambda records: seen.extend(one.offset for one in records))
    publisher.take(0, [at(0), at(1)], 2)
    version = publisher.take(0, [at(0), at(1), at(2)], 4)
    assert names(version) == {"c0", "c1", "c2"}
    assert (version.position, version.next_offset) == (4, 4)
    assert publisher.take(1, [at(1)], 2) is version, "one that is behind changes nothing"
    assert seen == [0, 1, 2]


def test_a_gap_is_refused_and_changes_nothing() -> None:
    publisher = StatePublisher("t")
    version = publisher.take(0, [at(0)], 1)
    with pytest.raises(Retriable, match="from offset 2"):
        publisher.take(2, [at(2)], 3)
    assert publisher.version is version


def test_a_record_that_cannot_be_read_changes_nothing_and_comes_again() -> None:
    publisher = StatePublisher("t")
    version = publisher.take(0, [at(0)], 1)
    broken = LogRecord(0, 1, b"logger-cluster-x", b"{", 0)
    with pytest.raises(Unreadable, match="offset 1"):
        publisher.take(1, [broken], 2)
    assert publisher.version is version
    mended = LogRecord(0, 3, b"logger-cluster-x", None, 0)
    assert publisher.take(1, [broken, at(2), mended], 4).position == 4
    assert names(publisher.version) == {"c0", "c2"}


def test_what_was_committed_behind_an_open_transaction_stays() -> None:
    """A reader that has looked earlier knows less of it, and takes nothing back."""
    publisher = StatePublisher("t")
    publisher.take(0, [at(0)], 1)
    assert publisher.take(1, [], 1, [at(3), at(5)], at_end=False).next_offset is None
    version = publisher.take(1, [], 1, [at(5)])
    assert names(version) == {"c0", "c3", "c5"}
    version = publisher.take(1, [at(1), at(3), at(5)], 7)
    assert names(version) == {"c0", "c1", "c3", "c5"}
    assert version.next_offset == 7


def test_a_leader_adds_what_it_has_written_whoever_has_read_it_before() -> None:
    alone, overtaken = StatePublisher("t"), StatePublisher("t")
    for publisher in (alone, overtaken):
        before = publisher.take(0, [at(0)], 2, at_end=True)
        if publisher is overtaken:
            publisher.take(2, [at(2)], 3)
        version = publisher.take_own([at(2), at(3)], before)
        assert names(version) == {"c0", "c2", "c3"}
        assert (version.position, version.next_offset) == (4, 5), "the marker follows"
        before, version = version, publisher.take_own([at(5)], version)
        assert names(version) == {"c0", "c2", "c3", "c5"}
    overtaken.take(3, [at(3), at(5)], 9)
    version = overtaken.take_own([at(5)], before)
    assert (version.position, version.next_offset) == (9, 9)


def test_what_a_leader_has_written_is_read_if_the_state_began_again() -> None:
    publisher = StatePublisher("t", is_followed=True)
    decided_on = publisher.take(0, [at(0), at(1)], 2, at_end=True)
    again = publisher.renew()
    again.take(0, [at(0)], 1)
    publisher.replace(again)
    with pytest.raises(Retriable):
        publisher.take_own([at(2)], decided_on)
    assert names(publisher.version) == {"c0"}


class Topic:
    """A topic with a leader's transactions, a stranger's records and open transactions, and readers that are behind."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.log: list[LogRecord | None] = []
        """None: a marker, or a record that was aborted."""
        self.open_at: int | None = None

    @property
    def end(self) -> int:
        return len(self.log)

    @property
    def stable(self) -> int:
        return self.end if self.open_at is None else self.open_at

    def committed(self, start: int = 0, end: int | None = None) -> list[LogRecord]:
        return [one for one in self.log[start:end] if one is not None]

    def write(self) -> LogRecord:
        name = f"c{self._chance.randrange(4)}"
        record = at(self.end, name, deleted=self._chance.random() < 0.3)
        self.log.append(record)
        return record

    def disturb(self) -> None:
        """What others do: write a record, begin a transaction, or end it."""
        if self._chance.random() < 0.4:
            self.write()
        elif self.open_at is None:
            self.open_at = self.end
            self.log.append(None)
        else:
            if self._chance.random() < 0.5:
                self.log[self.open_at] = at(self.open_at, "opened")
            self.open_at = None
            self.log.append(None)


class Process:
    """Two readers and a leader that share a publisher, in an order that is left to chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.topic, self.publisher = Topic(self.chance), StatePublisher("t")
        self._positions = [0, 0]
        self._open: list[LogRecord] = []
        """The leader's, whose commit is known before its marker is there."""
        self._versions = [self.publisher.version]
        self.writes = 0

    def expected(self) -> ClusterState:
        return fold(ClusterState(), self.topic.committed(), "t")

    def step(self) -> None:
        if self._open and self.chance.random() < 0.4:
            if self.chance.random() < 0.2:
                self.topic.write()  # a stranger's, before the marker
            self.topic.log.append(None)
            self._open = []
        elif not self._open and self.chance.random() < 0.2:
            self.topic.disturb()
        elif not self._open and self.chance.random() < 0.4:
            self._write()
        else:
            self._read(self.chance.randrange(2))
        self._check()

    def _write(self) -> None:
        """Decide on the newest version, or on an older one as a term does."""
        version = self.chance.choice(self._versions[-4:])
        if version.next_offset != self.topic.end:
            return  # such a write is aborted, and decided again
        assert version.state == self.expected()
        self._open = [self.topic.write() for _ in range(self.chance.randrange(1, 3))]
        after = self.publisher.take_own(self._open, version)
        assert after.state == self.expected()
        self.writes += 1

    def _read(self, reader: int) -> None:
        start = min(self._positions[reader], self.publisher.version.position)
        stable = min(self.topic.stable, self._open[0].offset if self._open else self.topic.end)
        reached = self.chance.randrange(start, stable + 1) if stable > start else start
        at_end = None if reached < stable or self.chance.random() < 0.5 else reached == self.topic.end
        ahead = self.topic.committed(reached) if at_end is False and not self._open else []
        self.publisher.take(start, self.topic.committed(start, reached), reached, ahead, at_end=at_end)
        self._positions[reader] = reached

    def _check(self) -> None:
        version = self.publisher.version
        self._versions.append(version)
        before = self.topic.committed(0, version.position)
        assert version.state.end >= max((one.offset + 1 for one in before), default=0)
        if version.position >= self.topic.end:
            assert version.state == self.expected()


def test_no_version_takes_an_older_state_for_the_newest() -> None:
    """Whatever two readers and a leader do: a record at a version's next offset stands right behind its state, and a
    version contains all that is before its position.
    """
    writes = 0
    for seed in range(100):
        process = Process(seed)
        for _ in range(60):
            process.step()
        writes += process.writes
    assert writes > 100, "it has shown something"


@pytest.fixture
def followed() -> StatePublisher:
    return StatePublisher("t", is_followed=True)


def test_what_was_not_read_for_long_is_not_trusted(followed: StatePublisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tombstones may have gone from the topic."""
    followed.take(0, [at(0)], 1)
    followed.confirm(boot_seconds())
    later = boot_seconds() + 2 * 3600
    monkeypatch.setattr(config_log, "boot_seconds", lambda: later)
    for use in (followed.check_age, lambda: followed.confirm(later), lambda: followed.take(1, [], 1)):
        with pytest.raises(Outdated, match="was not read for 120 minutes"):
            use()
    again = followed.renew()
    assert again.topic_id == followed.topic_id
    again.take(0, [at(4)], 5, at_end=True)
    again.confirm(later)
    followed.replace(again)
    followed.check_age()
    assert names(followed.version) == {"c4"}
    assert followed.version.position == 5


def test_what_a_term_reads_alone_has_no_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that writes alone reads nothing for days."""
    publisher = StatePublisher("t")
    publisher.take(0, [at(0)], 1)
    later = boot_seconds() + 1e6
    monkeypatch.setattr(config_log, "boot_seconds", lambda: later)
    assert names(publisher.take(1, [at(1)], 2)) == {"c0", "c1"}


def test_a_distrusted_state_is_read_again(followed: StatePublisher) -> None:
    followed.take(0, [at(0)], 1)
    followed.distrust("its end was lost")
    with pytest.raises(Outdated, match="its end was lost"):
        followed.take(1, [at(1)], 2)
    assert names(followed.version) == {"c0"}, "nobody sees an empty cluster"
    alone = StatePublisher("t")
    alone.take(0, [at(0)], 1)
    alone.distrust("its end was lost")
    assert alone.version.position == 0


def test_whoever_waits_is_woken_by_the_version_it_waits_for() -> None:
    publisher = StatePublisher("t")
    seen: list[Version] = []
    waiting = threading.Thread(
        target=lambda: seen.append(publisher.wait_until(lambda version: "c1" in names(version), 60))
    )
    waiting.start()
    publisher.take(0, [at(0)], 1)
    publisher.take(1, [at(1)], 2)
    waiting.join(30)
    assert not waiting.is_alive()
    assert names(seen[0]) == {"c0", "c1"}
    assert publisher.wait_until(lambda _: False, 0.01) is publisher.version


def test_readers_and_a_leader_at_once_agree_on_the_state() -> None:
    publisher = StatePublisher("t")
    log: Sequence[LogRecord] = [at(n, f"c{n % 7}", deleted=n % 5 == 0) for n in range(2000)]
    failures: list[Exception] = []

    def read(size: int) -> None:
        try:
            position = 0
            while position < len(log):
                end = min(position + size, len(log))
                publisher.take(position, log[position:end], end)
                position = end
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(size,)) for size in (1, 3, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert failures == []
    assert publisher.version.state == fold(ClusterState(), log, "t")
    assert publisher.version.position == len(log)
