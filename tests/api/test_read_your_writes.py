"""What a command has written is shown by each request that begins after its answer, in any web process."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from django.db import connection
from django.test import Client

from ringfence import read_your_writes
from ringfence.local.ports import free_port
from ringfence.local.valkey import EmbeddedValkey
from ringfence.projection import positions
from ringfence.read_your_writes import Answered
from tests.support.leader import FakeLeader

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
        answered.settle()
        connection.close()

    thread = threading.Thread(target=settle, daemon=True)
    thread.start()
    return thread


def test_a_reader_in_another_web_process_waits_until_the_rows_show_it(url: str, shown: Callable[[int], None]) -> None:
    writer, reader = Answered(url), Answered(url)
    reader.settle()
    writer.note(WRITTEN)
    for process in (writer, reader):
        reading = settling(process)
        shown(41)
        reading.join(0.3)
        assert reading.is_alive(), "the rows show what is before offset 41"
        shown(42)
        reading.join(20)
        assert not reading.is_alive()
        shown(0)  # for the other one


def test_an_older_answer_that_comes_later_takes_nothing_back(url: str, shown: Callable[[int], None]) -> None:
    first, second, reader = Answered(url), Answered(url), Answered(url)
    second.note({"offset": 50})
    first.note(WRITTEN)
    shown(42)
    reading = settling(reader)
    reading.join(0.3)
    assert reading.is_alive()
    shown(51)
    reading.join(20)
    assert not reading.is_alive()


def test_what_was_shown_once_is_not_looked_up_again(
    url: str, shown: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = Answered(url)
    answered.note(WRITTEN)
    shown(42)
    answered.settle()
    monkeypatch.setattr(positions, "shown_offset", lambda *_: pytest.fail("it was shown already"))
    answered.settle()


def test_a_projection_that_stands_still_holds_each_answer_up_once(
    url: str, shown: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_your_writes, "SETTLE_SECONDS", 0.3)
    answered = Answered(url)
    answered.note(WRITTEN)
    answered.settle()
    monkeypatch.setattr(positions, "shown_offset", lambda *_: pytest.fail("this answer was waited for"))
    answered.settle()


def test_an_offset_of_a_topic_that_was_replaced_is_forgotten(url: str, shown: Callable[[int], None]) -> None:
    answered = Answered(url)
    answered.note({"offset": 10**6})
    shown(10**6 + 1)
    answered.settle()
    redis.Redis.from_url(url).flushdb()
    answered._noted_at -= read_your_writes._KEPT_SECONDS + 1
    shown(0)
    answered.note(WRITTEN)
    reading = settling(answered)
    reading.join(0.3)
    assert reading.is_alive()
    shown(42)
    reading.join(20)
    assert not reading.is_alive()


def test_without_redis_this_process_still_knows_its_own_answers(shown: Callable[[int], None]) -> None:
    answered = Answered(f"redis://127.0.0.1:{free_port()}/0")
    began = time.monotonic()
    for _ in range(50):
        answered.note(WRITTEN)
    assert time.monotonic() - began < 5, "Redis is asked once in five seconds"
    reading = settling(answered)
    reading.join(0.3)
    assert reading.is_alive()
    shown(42)
    reading.join(20)
    assert not reading.is_alive()


@pytest.mark.parametrize(("method", "path"), [("GET", "/connectors"), ("PUT", "/connectors/c/pause"), ("GET", "/ui/")])
def test_each_request_begins_with_that_wait(
    client: Client, leader: FakeLeader, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_before: list[int] = []
    monkeypatch.setattr(read_your_writes.answered, "settle", lambda: asked_before.append(len(leader.asked)))
    leader.start("c")
    client.generic(method, path)
    assert asked_before[0] == 0


@pytest.mark.parametrize("path", ["/health/live", "/static/ringfence/ringfence.css"])
def test_probes_and_files_wait_for_nothing(client: Client, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_your_writes.answered, "settle", lambda: pytest.fail("it reads no rows"))
    client.get(path)
