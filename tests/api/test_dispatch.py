"""A command over a real Redis: answered, refused, late, without Redis, and read back at once."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker

from ringfence import answer_ends, dispatch, messages, read_your_writes, redis_clock, redis_results, transport
from ringfence.dispatch import CommandResult, Refusal
from ringfence.engine import questions
from ringfence.engine.leader import commands
from ringfence.engine.questions import ListPlugins
from ringfence.fencing import stages
from ringfence.fencing.clock import Deadline
from ringfence.local.ports import free_port
from ringfence.local.valkey import EmbeddedValkey
from ringfence.projection import cluster_topics, positions
from ringfence.read_your_writes import Answered
from ringfence.redis_results import NotifyingBackend, backend
from ringfence.requests.request import Command, Question
from tests.support.commands import command_named
from tests.support.waiting import eventually

real_command = dispatch.command  # before the stand-in of the other tests takes its place
real_ask = dispatch.ask
seen: list[str] = []


def send(kind: str, connector: str, body: dict[str, Any], **more: Any) -> CommandResult[Any]:
    return real_command(command_named(kind, connector, body), **more)


@pytest.fixture(scope="module")
def worker(valkey: EmbeddedValkey) -> Iterator[Celery]:
    app = Celery("stub", broker=valkey.url, backend=backend(valkey.url), task_cls=messages.BoundTask)
    messages.use(app)

    @app.task(name="ringfence.leader.command", shared=False)  # type: ignore[untyped-decorator]
    def command(command: dict[str, Any], deadline: float) -> dict[str, Any]:
        assert deadline > time.time()
        match command["kind"]:
            case "refuse":
                return {"ok": False, "status": 409, "message": "Connector c already exists", "retry": False}
            case "bounce":
                seen.append(command["request_id"])
                if len(seen) <= command["body"]["times"]:
                    answer = {"ok": False, "status": 409, "message": "this worker does not lead", "retry": True}
                    return {**answer, "passing": command["body"].get("passing", True)}
            case "sleep":
                time.sleep(command["body"]["seconds"])
            case "behind":
                messages.do_behind_answer(lambda: seen.append("behind"))
            case "odd":
                return ["no object"]  # type: ignore[return-value]
            case "offsets":
                written = {"ok": True, "value": None, "offset": 3, "offsets_end": {"0": 0, "2": 9}}
                return redis_results.write_ends_with(written, command["user"])
        return {"ok": True, "offset": command["body"].get("offset"), "value": command}

    @app.task(name="ringfence.plugins.list", shared=False)  # type: ignore[untyped-decorator]
    def plugins(deadline: float, account: str | None) -> dict[str, Any]:
        return {"ok": True, "value": [{"class": "X", "type": "source"}]}

    app.conf.update(worker_hijack_root_logger=False)
    options = {"pool": "threads", "concurrency": 4, "perform_ping_check": False, "queues": ["leader", "plugins"]}
    with start_worker(app, shutdown_timeout=60, **options):
        yield app


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch, valkey: EmbeddedValkey) -> None:
    use(monkeypatch, valkey.url)


def use(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(transport, "app", transport.client(url))
    monkeypatch.setattr(transport, "results", transport.store(url))


def test_while_a_topic_is_lost_nothing_is_asked_of_anybody() -> None:
    cluster_topics.store_loss("The config topic is gone")
    with pytest.raises(Refusal) as refused:
        send("create", "c", {})
    assert (refused.value.status, refused.value.message) == (503, "Nothing was changed. The config topic is gone")


def test_a_command_comes_back_with_its_value(worker: Celery) -> None:
    result = send("create", "c", {"config": {"a": "1"}}, user="ann")
    assert result.value["body"] == {"config": {"a": "1"}}
    assert (result.value["connector"], result.value["user"]) == ("c", "ann")
    assert result.offset is None


def test_what_an_answer_waits_for_is_measured(worker: Celery) -> None:
    with stages.collect() as parts:
        send("create", "c", {"config": {}, "offset": 7}, await_rows=False)
    assert {"leader.way", "note"} <= parts.keys()


def test_a_message_is_taken_without_a_note_in_redis(worker: Celery, valkey: EmbeddedValkey) -> None:
    """Such a note, and its removal, would be two round trips before the command runs."""
    store = redis.Redis.from_url(valkey.url)

    def count_calls() -> dict[str, int]:
        return {name: stats["calls"] for name, stats in store.info("commandstats").items()}

    before = count_calls()
    send("create", "c", {"config": {}})
    new = {name for name, calls in count_calls().items() if calls > before.get(name, 0)}
    assert "cmdstat_lpush" in new
    assert not new & {"cmdstat_hset", "cmdstat_hdel", "cmdstat_zadd", "cmdstat_zrem"}


def test_the_time_is_asked_for_once_in_a_request(
    worker: Celery, valkey: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what the account has written before, and alone if that is a while ago."""
    store = redis.Redis.from_url(valkey.url)

    def count_requests(lately_s: float) -> int:
        monkeypatch.setattr(redis_clock, "_LATELY_SECONDS", lately_s)
        redis_clock.note(store.time())
        before = store.info("commandstats")["cmdstat_time"]["calls"]
        send("create", "c", {"config": {}})
        return int(store.info("commandstats")["cmdstat_time"]["calls"] - before)

    assert (count_requests(60.0), count_requests(0.0)) == (0, 1)
    monkeypatch.setattr(redis_clock, "_LATELY_SECONDS", 60.0)
    seconds, microseconds = store.time()
    redis_clock.note((seconds - 1000, microseconds))
    assert 999 < redis_clock.now(store) - redis_clock.lately(store) < 1030
    redis_clock.note(store.time())  # for the tests that follow


def test_an_answer_is_waited_for_and_read_in_one_request(worker: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's notice ends the wait: nothing looks for the answer in between. The notice does not repeat it."""
    monkeypatch.setattr(transport, "_LOOK_SECONDS", 1.9)
    requests: list[tuple[list[str], list[Any]]] = []
    real: Callable[..., list[Any]] = redis.client.Pipeline.execute

    def noted(self: Any, *arguments: Any, **options: Any) -> list[Any]:
        names = [str(command[0]) for command, _ in self.command_stack]
        answers = real(self, *arguments, **options)
        if "BLPOP" in names:  # the worker has pipelines, too
            requests.append((names, answers))
        return answers

    with monkeypatch.context() as patch:
        patch.setattr(redis.client.Pipeline, "execute", noted)
        assert send("sleep", "c", {"seconds": 0.5}).value["connector"] == "c"
    ((names, answers),) = requests
    assert names == ["BLPOP", "MULTI", "GETRANGE", "DEL", "EXEC"]
    assert answers[0][1] == b""
    assert messages.decode(answers[-1][0])["result"]["value"]["connector"] == "c"
    assert transport.results.keys("celery-task-meta-*") == []


def test_work_behind_an_answer_is_done_once_the_answer_is_stored(
    worker: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen.clear()
    messages.do_behind_answer(lambda: seen.append("outside of a task"))
    assert seen == ["outside of a task"]
    store: Callable[..., object] = NotifyingBackend.store_result

    def note(self: NotifyingBackend, *arguments: Any, **options: Any) -> object:
        answer = store(self, *arguments, **options)
        seen.append("stored")
        return answer

    monkeypatch.setattr(NotifyingBackend, "store_result", note)
    send("behind", "c", {})
    send("create", "c", {})
    expected = ["outside of a task", "stored", "behind", "stored"]
    eventually(lambda: sorted(seen) == sorted(expected), 20, "both were answered")
    assert seen.index("behind") > seen.index("stored")


def test_what_a_command_wrote_is_noted_as_its_answer_is_stored(
    worker: Celery, valkey: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web process that never saw the answer waits for the rows, and the one that did sends no request for it."""
    monkeypatch.setattr(read_your_writes, "SETTLE_SECONDS", 0.0)
    awaited: list[int] = []

    def await_rows(role: str, partition: int, end: int, deadline: Deadline) -> bool:
        awaited.append(end)
        return True

    monkeypatch.setattr(read_your_writes, "_is_shown", await_rows)
    monkeypatch.setattr(positions, "shown_offset", lambda *_: 0)
    other, notes = Answered(valkey.url), redis.Redis.from_url(valkey.url)
    answer = send("offsets", "c", {}, user="eve", await_rows=False)
    assert answer.offset == 3
    other.settle("eve")
    assert sorted(awaited) == [4, 9]
    notes.delete(answer_ends.key_of("eve"))
    Answered(valkey.url).note("eve", {"offset": 3, answer_ends.NOTED: True})
    assert not notes.exists(answer_ends.key_of("eve")), "the worker has done so"


def test_an_answer_arrives_where_the_key_of_what_it_wrote_is_taken(
    worker: Celery, valkey: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    notes = redis.Redis.from_url(valkey.url)
    notes.set(answer_ends.key_of("mallory"), "text", ex=60)
    with caplog.at_level("WARNING", redis_results.__name__):
        assert send("offsets", "c", {}, user="mallory", await_rows=False).offset == 3
    assert "do not learn what a command has written" in caplog.text
    notes.delete(answer_ends.key_of("mallory"))


def test_plugins_are_asked_on_their_own_queue(worker: Celery) -> None:
    assert real_ask(ListPlugins()) == [{"class": "X", "type": "source"}]


def test_a_refusal_keeps_its_status(worker: Celery) -> None:
    with pytest.raises(Refusal) as refused:
        send("refuse", "c", {})
    assert (refused.value.status, refused.value.message) == (409, "Connector c already exists")


def test_a_command_that_met_a_change_of_the_leader_is_sent_again_as_a_new_one(worker: Celery) -> None:
    seen.clear()
    assert send("bounce", "c", {"times": 3}).value["kind"] == "bounce"
    assert len(seen) == len(set(seen)) == 4


def test_it_is_repeated_only_within_its_time_and_only_where_nothing_was_changed(
    worker: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_TOO_LATE_SECONDS", 15.0)  # so much is left for the last answer on a busy machine
    seen.clear()
    began = time.monotonic()
    with pytest.raises(Refusal) as refused:
        send("bounce", "c", {"times": 1000}, timeout=17)
    assert (refused.value.status, refused.value.retry) == (409, True)
    assert 0.2 < time.monotonic() - began < 17
    assert len(seen) > 1
    seen.clear()
    with pytest.raises(Refusal):
        send("bounce", "c", {"times": 1000, "passing": False})
    assert len(seen) == 1


def test_an_answer_of_another_form_is_an_error(worker: Celery) -> None:
    with pytest.raises(Refusal) as refused:
        send("odd", "c", {})
    assert refused.value.status == 500


def test_out_of_time_is_unknown(worker: Celery) -> None:
    with pytest.raises(Refusal) as refused:
        send("sleep", "c", {"seconds": 2}, timeout=0.3)
    assert refused.value.status == 500
    assert refused.value.message.startswith("Request timed out. It waited for the leader's answer to 'sleep'")
    assert "unknown" in refused.value.message


def test_it_returns_once_the_database_shows_the_write(worker: Celery) -> None:
    def project() -> None:
        time.sleep(0.4)
        positions.move("config", "t", "id", {}, {0: 8})

    thread = threading.Thread(target=project)
    began = time.monotonic()
    thread.start()
    assert send("configure", "c", {"offset": 7}).offset == 7
    assert time.monotonic() - began > 0.3
    thread.join()


def test_written_source_offsets_are_waited_for(worker: Celery) -> None:
    positions.move("config", "t", "id", {}, {0: 4})
    positions.move("offsets", "o", "id", {}, {0: 0, 2: 8})
    with pytest.raises(Refusal, match="offset 8 of the offsets topic"):
        send("offsets", "c", {}, timeout=5)
    positions.move("offsets", "o", "id", {2: 8}, {2: 9})
    assert send("offsets", "c", {}).offset == 3


def test_a_projection_that_lags_is_said_to_lag(worker: Celery) -> None:
    with pytest.raises(Refusal) as refused:
        send("configure", "c", {"offset": 7}, timeout=5)
    assert "It was written to Kafka" in refused.value.message


def test_redis_away_is_a_503_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "redis://127.0.0.1:1/0")
    began = time.monotonic()
    with pytest.raises(Refusal) as refused:
        send("create", "c", {})
    assert (refused.value.status, refused.value.retry) == (503, True)
    assert "RINGFENCE_REDIS_URL" in refused.value.message
    assert time.monotonic() - began < 10


def test_a_redis_that_hangs_is_told_before_anything_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "pid"
    server = EmbeddedValkey(tmp_path / "data", free_port(), tmp_path / "valkey.log", pid_file=pid_file)
    use(monkeypatch, server.url)
    server.start()
    pid = int(pid_file.read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(Refusal, match="Nothing was changed"):
            send("create", "c", {})
        assert time.monotonic() - began < 8
    finally:
        os.kill(pid, signal.SIGCONT)
        server.kill()


def test_many_commands_at_once(worker: Celery) -> None:
    results: list[int] = []

    def ask(number: int) -> None:
        results.append(send("echo", "c", {"number": number}).value["body"]["number"])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(results) == list(range(20))


def test_it_works_again_after_redis_was_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = EmbeddedValkey(tmp_path / "data", free_port(), tmp_path / "valkey.log")
    use(monkeypatch, server.url)
    server.start()
    with pytest.raises(Refusal, match="Request timed out"):
        send("nobody listens", "c", {}, timeout=0.3)
    server.kill()
    with pytest.raises(Refusal, match="Redis does not answer"):
        send("create", "c", {})
    server.start()
    try:
        with pytest.raises(Refusal, match="Request timed out"):
            send("nobody listens", "c", {}, timeout=0.3)
    finally:
        server.kill()


class Cutting:
    """Stands before Redis, and ends a connection that brings `word`, as often as `times` says."""

    def __init__(self, port: int, word: bytes) -> None:
        self._target, self._word = port, word
        self.times = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._target))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.times and self._word in data:
                    self.times -= 1
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("times", range(1, 9))
def test_the_command_after_a_failure_of_redis_is_carried_out(
    worker: Celery, monkeypatch: pytest.MonkeyPatch, valkey: EmbeddedValkey, times: int
) -> None:
    """Redis ends the connections that declare a queue: a command is sent, or refused in words, and the next is sent."""
    redis_before = Cutting(valkey.port, b"SADD")
    use(monkeypatch, redis_before.url)
    redis_before.times = times
    try:
        while redis_before.times:
            with contextlib.suppress(Refusal):
                assert send("create", "c", {}).value["kind"] == "create"
        assert send("create", "c", {}).value["kind"] == "create"
    finally:
        redis_before.close()


def test_every_question_and_command_is_known_to_the_workers() -> None:
    """One that is left out of its list is refused by Celery, on a real platform only."""
    for kinds, module, known in (
        (Question, questions, questions.QUESTIONS),
        (Command, commands, commands.COMMANDS),
    ):
        named = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, kinds)]
        assert {each for each in named if "name" in vars(each)} == set(known)
