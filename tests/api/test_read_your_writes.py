"""What a command has written is shown by each request that begins after its answer, in any web process."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import redis
from django.db import connection
from django.test import Client

from ringfence import after_answer, answer_ends, middleware, quotas, read_your_writes
from ringfence.local.ports import free_port
from ringfence.local.valkey import EmbeddedValkey
from ringfence.projection import positions
from ringfence.read_your_writes import Answered
from tests.support.leader import FakeLeader
from tests.support.waiting import eventually

ANN = "ann"
WRITTEN = {"offset": 41}


@pytest.fixture
def url(valkey: EmbeddedValkey) -> Iterator[str]:
    url = valkey.url.removesuffix("/0") + "/6"
    yield url
    redis.Redis.from_url(url).flushdb()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set up to where the rows show the config topic. At first: nothing of it."""
    offsets = [0]
    monkeypatch.setattr(positions, "shown_offset", lambda role, _: offsets[-1] if role == "config" else 10**6)
    return offsets.append


def settling(answered: Answered) -> threading.Thread:
    def settle() -> None:
        answered.settle(ANN)
        connection.close()

    thread = threading.Thread(target=settle, daemon=True)
    thread.start()
    return thread


def check_it_waits(reading: threading.Thread, shown: Callable[[int], None], offset: int) -> None:
    """It goes on once the rows show this offset, and not before."""
    reading.join(0.3)
    assert reading.is_alive(), "the rows show what is before that offset"
    shown(offset)
    reading.join(20)
    assert not reading.is_alive()


def test_a_reader_in_another_web_process_waits_until_the_rows_show_it(url: str, shown: Callable[[int], None]) -> None:
    writer, reader = Answered(url), Answered(url)
    reader.settle(ANN)
    writer.note(ANN, WRITTEN)
    for process in (writer, reader):
        reading = settling(process)
        shown(41)
        check_it_waits(reading, shown, 42)
        shown(0)  # for the other one


def test_an_older_answer_that_comes_later_takes_nothing_back(url: str, shown: Callable[[int], None]) -> None:
    first, second, reader = Answered(url), Answered(url), Answered(url)
    second.note(ANN, {"offset": 50})
    first.note(ANN, WRITTEN)
    shown(42)
    check_it_waits(settling(reader), shown, 51)


def test_what_was_shown_once_is_not_looked_up_again(
    url: str, shown: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = Answered(url)
    answered.note(ANN, WRITTEN)
    shown(42)
    answered.settle(ANN)
    monkeypatch.setattr(positions, "shown_offset", lambda *_: pytest.fail("it was shown already"))
    answered.settle(ANN)


def test_a_projection_that_stands_still_holds_each_answer_up_once(
    url: str, shown: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_your_writes, "SETTLE_SECONDS", 0.3)
    answered = Answered(url)
    answered.note(ANN, WRITTEN)
    answered.settle(ANN)
    monkeypatch.setattr(positions, "shown_offset", lambda *_: pytest.fail("this answer was waited for"))
    answered.settle(ANN)


def test_an_offset_of_a_topic_that_was_replaced_is_forgotten(url: str, shown: Callable[[int], None]) -> None:
    answered = Answered(url)
    answered.note(ANN, {"offset": 10**6})
    shown(10**6 + 1)
    answered.settle(ANN)
    redis.Redis.from_url(url).flushdb()
    answered._accounts[ANN].noted_at -= answer_ends.KEPT_SECONDS + 1
    shown(0)
    answered.note(ANN, WRITTEN)
    check_it_waits(settling(answered), shown, 42)


def test_nobody_waits_for_what_another_account_has_written(url: str, shown: Callable[[int], None]) -> None:
    answered, other = Answered(url), Answered(url)
    answered.note(ANN, WRITTEN)
    for process in (answered, other):
        began = time.monotonic()
        process.settle("bob")
        assert time.monotonic() - began < read_your_writes.SETTLE_SECONDS / 2


def test_without_redis_this_process_still_knows_its_own_answers(shown: Callable[[int], None]) -> None:
    answered = Answered(f"redis://127.0.0.1:{free_port()}/0")
    began = time.monotonic()
    for _ in range(50):
        answered.note(ANN, WRITTEN)
    assert time.monotonic() - began < 5, "Redis is asked once in five seconds"
    check_it_waits(settling(answered), shown, 42)


def test_one_account_occupies_few_threads_while_the_rows_do_not_follow(url: str, shown: Callable[[int], None]) -> None:
    answered, places = Answered(url), quotas.Lane("waiting requests", quotas.Limits(3, 4, 0, 100, 100))
    for account in (ANN, "bob"):
        answered.note(account, WRITTEN)
    refused: list[str] = []

    def settle() -> None:
        try:
            answered.settle(ANN, places)
        except quotas.TooMany as many:
            refused.append(many.message)
        finally:
            connection.close()

    threads = [threading.Thread(target=settle, daemon=True) for _ in range(20)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(refused) == 17, 20, "whoever finds no place is told so at once")
    shown(42)
    for thread in threads:
        thread.join(20)
    assert len(refused) == 17
    answered.settle("bob", places)
    assert places._running.total() == 0


def test_who_finds_no_place_is_told_so_with_429(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "SETTLING", quotas.Lane("waiting requests", quotas.Limits(0, 1, 0, 100, 100)))
    monkeypatch.setattr(read_your_writes, "answered", answered := Answered("redis://127.0.0.1:1/0"))
    monkeypatch.setattr(middleware, "answered", answered)
    assert client.get("/connectors").status_code == 200, "it does not wait"
    monkeypatch.setattr(positions, "shown_offset", lambda *_: 0)
    answered.note("", WRITTEN)
    answer = client.get("/connectors")
    assert (answer.status_code, answer["retry-after"]) == (429, "1")


@pytest.mark.parametrize("member", ["config:0", f"config:{'9' * 5000}", "config:٣", "config:", "x", "\udcff"])
@pytest.mark.parametrize("end", ["inf", "-inf", "1e300", "-5"])
def test_what_somebody_else_puts_into_redis_breaks_no_request(
    url: str, shown: Callable[[int], None], member: str, end: str
) -> None:
    redis.Redis.from_url(url).zadd("ringfence:answered:ann", {member.encode(errors="surrogateescape"): float(end)})
    began = time.monotonic()
    Answered(url).settle(ANN)
    assert time.monotonic() - began < read_your_writes.SETTLE_SECONDS


def test_one_account_leaves_little_work_behind_its_answers() -> None:
    """It occupies threads that no lane counts: what is more is done before the answer."""
    done: list[str] = []
    with after_answer.collect() as collected:
        for account in (*["ann"] * 20, *["bob"] * 20):
            after_answer.do(account, partial(done.append, account))
        left = [work.account for work in collected]
        assert left == ["ann"] * after_answer.MOST_OF_ACCOUNT + ["bob"] * (
            after_answer.MOST - after_answer.MOST_OF_ACCOUNT
        )
        assert len(done) == 40 - after_answer.MOST
        after_answer.carry_out(collected)
    assert len(done) == 40
    assert not after_answer._begun
    assert not after_answer._done


@pytest.mark.parametrize(("method", "path"), [("GET", "/connectors"), ("PUT", "/connectors/c/pause"), ("GET", "/ui/")])
def test_each_request_begins_with_that_wait(
    client: Client, leader: FakeLeader, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_before: list[int] = []
    monkeypatch.setattr(read_your_writes.answered, "settle", lambda *_: asked_before.append(len(leader.asked)))
    leader.start("c")
    client.generic(method, path)
    assert asked_before[0] == 0


@pytest.mark.parametrize("path", ["/health/live", "/static/ringfence/ringfence.css"])
def test_probes_and_files_wait_for_nothing(client: Client, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_your_writes.answered, "settle", lambda *_: pytest.fail("it reads no rows"))
    client.get(path)
