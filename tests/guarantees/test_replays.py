"""Dead letters replayed on the real broker: each goes in once, whatever happens in the meantime."""

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.dead_letters import (
    DeadLetterFilter,
    LetterConversion,
    Page,
    Replay,
    ReplayOutcome,
    ReplayResult,
    Replays,
    page,
)
from ringfence.fencing.errors import Fenced
from ringfence.fencing.ids import ConnectorName, replay_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_records import Limits
from ringfence.fencing.records.dead_letter import DeadLetter, Place, as_bytes
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.stage import Script, Stage
from tests.support.broker import Broker
from tests.support.picky import Picky, numbers
from tests.support.waiting import eventually

LIMIT = 30
BAD = [number for number in range(LIMIT) if number % 7 == 0]


class Replayable:
    """A connector that has ended, with dead letters 0, 7, 14, 21 and 28; and ways to replay them."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.topic = stage, f"{stage.data}-bad"
        config = {"topic": stage.data, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": self.topic}
        stage.configure(config)
        stage.count()
        stage.start(Script(limit=LIMIT), config, convert=Picky()).finish_after(LIMIT)
        # The last stable offset moves a moment after the answer to a commit.
        eventually(lambda: len(self.places()) == len(BAD), 30, "the letters")

    def producer(self) -> Producer:
        made_id = replay_transactional_id(self.stage.group, self.stage.connector)
        return Producer(self.stage.connection, made_id)

    def replays(self, new: Callable[[], Producer] | None = None) -> Replays:
        return Replays(
            new or self.producer, self.stage.connection, self.topic, self.stage.connector, Deadline.after(60)
        )

    def page(
        self, *, before: dict[int, int] | None = None, records: int = 50, wanted: DeadLetterFilter | None = None
    ) -> Page:
        whose = wanted or DeadLetterFilter(self.stage.connector)
        return page(self.stage.connection, self.topic, whose, Deadline.after(60), Limits(records), before=before)

    def states(self) -> dict[int, Replay]:
        """By the number that the letter holds."""
        return {int(record.value or b"-1"): replay for record, replay in self.page().letters}

    def shows(self, states: dict[int, Replay]) -> None:
        eventually(lambda: self.states() == states, 30, f"these states: {states}")

    def places(self) -> list[Place]:
        return [(record.partition, record.offset) for record, _ in reversed(self.page().letters)]

    def replayed(self) -> list[int]:
        """What stands in the data behind what the task wrote."""
        return numbers(self.stage, self.stage.data)[LIMIT - len(BAD) :]


def as_it_is(letters: Sequence[DeadLetter]) -> list[LetterConversion]:
    made = []
    for letter in letters:
        record = letter.record()
        made.append(LetterConversion((record.topic, as_bytes(record.value), None, -1, 0, None)))
    return made


def became(results: Sequence[ReplayResult]) -> list[ReplayOutcome]:
    return [each.became for each in results]


@pytest.fixture
def bad(broker: Broker, unique: Callable[[str], str]) -> Iterator[Replayable]:
    stage = Stage(Connection(broker.bootstrap), unique("replay"))
    yield Replayable(stage)
    stage.close()


def test_letters_are_listed_by_page_and_filter(bad: Replayable) -> None:
    first = bad.page(records=2)
    assert [record.value for record, _ in first.letters] == [b"28", b"21"]
    assert {replay for _, replay in first.letters} == {Replay.NO}
    assert first.complete
    second = bad.page(records=2, before=dict(first.older or {}))
    last = bad.page(records=2, before=dict(second.older or {}))
    assert [record.value for record, _ in (*second.letters, *last.letters)] == [b"14", b"7", b"0"]
    assert last.older is None
    name = bad.stage.connector
    for wanted, count in (
        (DeadLetterFilter(name, "VALUE_CONVERTER"), 5),
        (DeadLetterFilter(name, "VALUE_CONVERTER", "Plain"), 5),
        (DeadLetterFilter(name, "", "ValueError"), 5),
        (DeadLetterFilter(name, "", "builtins.ValueError"), 5),
        (DeadLetterFilter(name, "KEY_CONVERTER"), 0),
        (DeadLetterFilter("other"), 0),
    ):
        assert len(bad.page(wanted=wanted).letters) == count


def test_what_was_replayed_is_written_once(bad: Replayable) -> None:
    places = bad.places()
    results = bad.replays().replay([places[1], places[0]], as_it_is, {"by": "ann"})
    assert [(each.place, each.became, each.topic) for each in results] == [
        (places[0], ReplayOutcome.WRITTEN, bad.stage.data),
        (places[1], ReplayOutcome.WRITTEN, bad.stage.data),
    ]
    bad.shows({0: Replay.YES, 7: Replay.YES, 14: Replay.NO, 21: Replay.NO, 28: Replay.NO})
    again = bad.replays().replay([*places[:3], (0, 10_000)], as_it_is, {})
    assert became(again) == [
        ReplayOutcome.REPLAYED,
        ReplayOutcome.REPLAYED,
        ReplayOutcome.WRITTEN,
        ReplayOutcome.MISSING,
    ]
    rest = bad.replays()
    assert became(rest.all(DeadLetterFilter(bad.stage.connector), as_it_is, {}, most=1)) == [ReplayOutcome.WRITTEN]
    assert rest.left == 1
    assert len(bad.replays().all(DeadLetterFilter(bad.stage.connector, "KEY_CONVERTER"), as_it_is, {})) == 0
    assert became(bad.replays().all(DeadLetterFilter(bad.stage.connector), as_it_is, {})) == [ReplayOutcome.WRITTEN]
    assert bad.replayed() == BAD
    assert len(bad.places()) == len(BAD), "marks are no letters"
    other = Replays(bad.producer, bad.stage.connection, bad.topic, "other", Deadline.after(60))
    assert became(other.replay(places[:1], as_it_is, {})) == [ReplayOutcome.REPLAYED]


def test_what_fails_again_stays_and_what_is_dropped_does_not(bad: Replayable) -> None:
    def picky(letters: Sequence[DeadLetter]) -> list[LetterConversion]:
        ways = [LetterConversion(why="no better"), LetterConversion()]
        return [*ways, *as_it_is(letters[2:])]

    results = bad.replays().all(DeadLetterFilter(bad.stage.connector), picky, {})
    assert became(results) == [ReplayOutcome.FAILED, ReplayOutcome.DROPPED, *[ReplayOutcome.WRITTEN] * 3]
    assert results[0].why == "no better"
    bad.shows({0: Replay.NO, **dict.fromkeys(BAD[1:], Replay.YES)})
    assert bad.replayed() == BAD[2:]


class Dying(Producer):
    """Its process dies with everything written and nothing committed."""

    def commit(self, deadline: Deadline) -> None:
        assert self.flush(30) == 0
        raise KeyboardInterrupt

    def close(self) -> None:
        """A process that is gone aborts nothing; `close_after_all` lets the client go."""

    def close_after_all(self) -> None:
        super().close()


def test_a_crash_before_the_commit_leaves_nothing_behind(bad: Replayable) -> None:
    made_id = replay_transactional_id(bad.stage.group, ConnectorName(bad.stage.connector))
    dying = Dying(bad.stage.connection, made_id)
    with pytest.raises(KeyboardInterrupt):
        bad.replays(lambda: dying).replay(bad.places(), as_it_is, {})
    assert set(bad.states().values()) == {Replay.UNDECIDED}
    assert became(bad.replays().replay(bad.places(), as_it_is, {})) == [ReplayOutcome.WRITTEN] * len(BAD)
    bad.shows(dict.fromkeys(BAD, Replay.YES))
    assert bad.replayed() == BAD
    dying.close_after_all()


def test_of_two_replays_at_once_the_older_one_writes_nothing(bad: Replayable) -> None:
    converting, go_on = threading.Event(), threading.Event()
    places = bad.places()
    raised: list[BaseException] = []

    def slow(letters: Sequence[DeadLetter]) -> list[LetterConversion]:
        converting.set()
        assert go_on.wait(60)
        return as_it_is(letters)

    def first() -> None:
        try:
            bad.replays().replay(places, slow, {})
        except Fenced as error:
            raised.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert converting.wait(60)
    assert became(bad.replays().replay(places, as_it_is, {})) == [ReplayOutcome.WRITTEN] * len(BAD)
    go_on.set()
    thread.join(60)
    assert len(raised) == 1
    assert bad.replayed() == BAD


def test_a_mark_behind_an_open_transaction_is_not_overlooked(bad: Replayable, unique: Callable[[str], str]) -> None:
    """A task's open transaction holds the last stable offset back, and with it a replay that is committed."""
    task = Producer(bad.stage.connection, unique("task"))
    task.init(Deadline.after(30))
    task.begin()
    task.produce(bad.topic, b"7", None, 0)
    assert task.flush(30) == 0
    places = bad.places()
    assert became(bad.replays().replay(places[:1], as_it_is, {})) == [ReplayOutcome.WRITTEN]
    assert bad.states()[0] is Replay.UNDECIDED
    assert became(bad.replays().replay(places[:2], as_it_is, {})) == [ReplayOutcome.UNDECIDED, ReplayOutcome.WRITTEN]
    task.commit(Deadline.after(30))
    task.close()
    eventually(lambda: bad.states()[0] is Replay.YES, 30, "the mark to be seen")
    assert bad.replayed() == BAD[:2]
