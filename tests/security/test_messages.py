"""Who only reaches Redis can neither read what goes through it, nor have a worker do anything."""

import base64
import json
import logging
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker

from ringfence import messages, redis_clock, transport
from ringfence.encryption import Keyring, Purpose, new_key
from ringfence.fencing.clock import Deadline
from ringfence.local.valkey import EmbeddedValkey
from ringfence.projection.change_notifications import ANYTHING, decode
from ringfence.requests.request import Refusal
from tests.support.waiting import eventually

SECRET = "S3cr3t-in-a-message"
COMMAND, QUEUE = "ringfence.leader.command", "security-leader"
ran: list[dict[str, Any]] = []


@pytest.fixture(scope="module")
def url(valkey: EmbeddedValkey) -> str:
    return valkey.url.removesuffix("/0") + "/7"


@pytest.fixture(scope="module")
def worker(url: str) -> Iterator[Any]:
    """Celery's worker, with one thread."""
    app = Celery("stub", broker=url, backend=url, task_cls=messages.BoundTask)
    messages.use(app)

    @app.task(name=COMMAND, shared=False)  # type: ignore[untyped-decorator]
    def command(command: dict[str, Any], deadline: float) -> dict[str, Any]:
        ran.append(command)
        return {"ok": True, "value": SECRET}

    @app.task(name="ringfence.plugins.validate", shared=False)  # type: ignore[untyped-decorator]
    def validate(**arguments: Any) -> dict[str, Any]:
        ran.append(arguments)
        return {"ok": True}

    options = {"pool": "threads", "concurrency": 1, "perform_ping_check": False, "queues": [QUEUE]}
    with start_worker(app, shutdown_timeout=60, **options) as worker:
        yield worker


@pytest.fixture
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> redis.Redis:
    monkeypatch.setattr(transport, "app", transport.client(url))
    monkeypatch.setattr(transport, "results", transport.store(url))
    ran.clear()
    store = redis.Redis.from_url(url)
    for key in store.keys("celery-task-meta-*"):  # of the test before: nobody waited for them
        store.delete(key)
    return store


def ask(kind: str) -> dict[str, Any]:
    arguments = {"command": {"kind": kind, "password": SECRET}, "deadline": time.time() + 30}
    return transport.ask(COMMAND, QUEUE, arguments, Deadline.after(30), "an answer")


def everything(store: redis.Redis) -> bytes:
    """All that Redis holds."""
    found: list[Any] = []
    for key in store.keys("*"):
        match store.type(key):
            case b"list":
                found += store.lrange(key, 0, -1)
            case b"hash":
                found += store.hvals(key)
            case b"string":
                found.append(store.get(key))
    clear = b"\n".join(found)
    for raw in found:
        try:
            body = json.loads(raw)
            clear += base64.b64decode((body[0] if isinstance(body, list) else body)["body"])
        except (ValueError, KeyError, TypeError):
            continue
    return clear


def put(store: redis.Redis, message: dict[str, Any]) -> None:
    """As anybody with a Redis client would; returns when a worker has dealt with it."""
    store.lpush(QUEUE, json.dumps(message))
    eventually(lambda: store.llen(QUEUE) == 0, 20, "a worker took it")
    ask("after")  # one thread: what came before is done


def captured(url: str, store: redis.Redis) -> dict[str, Any]:
    """A message of ours, as it lies in Redis."""
    body = {"kind": "captured", "password": SECRET}
    sender = transport.client(url)
    sender.send_task(COMMAND, kwargs={"command": body, "deadline": time.time() + 30}, queue="nobodys")
    raw = store.lpop("nobodys")
    assert isinstance(raw, bytes)
    message: dict[str, Any] = json.loads(raw)
    message["properties"]["delivery_info"]["routing_key"] = QUEUE
    return message


def test_a_message_of_ours_runs_and_an_unsigned_one_does_not(worker: Any, store: redis.Redis, url: str) -> None:
    assert ask("genuine")["value"] == SECRET
    message = captured(url, store)
    claimed = {"ringfence_bound": [message["headers"]["task"], message["headers"]["id"]]}  # as a message of ours has it
    arguments = [[], {"command": {"kind": "delete"}, "deadline": time.time() + 60}, claimed]
    message["content-type"] = "application/json"
    message["body"] = base64.b64encode(json.dumps(arguments).encode()).decode()
    put(store, message)
    foreign = Keyring([new_key()])
    message["content-type"] = "application/x-ringfence"
    sealed = foreign.encrypt(Purpose.MESSAGES, json.dumps(arguments).encode())
    message["body"] = base64.b64encode(sealed.encode()).decode()
    put(store, message)
    assert [command["kind"] for command in ran] == ["genuine", "after", "after"]


def test_a_message_cannot_be_sent_again_or_as_another_one(worker: Any, store: redis.Redis, url: str) -> None:
    message = captured(url, store)
    put(store, {**message, "headers": {**message["headers"], "task": "ringfence.plugins.validate"}})
    put(store, {**message, "headers": {**message["headers"], "id": "another"}})
    assert [command["kind"] for command in ran] == ["after", "after"]
    put(store, message)
    put(store, message)
    assert [command["kind"] for command in ran] == ["after", "after", "captured", "after", "after"]


def changed(message: dict[str, Any], **parts: Any) -> str:
    """The message with other parts; `headers` are added to its own."""
    headers = {**message["headers"], **parts.pop("headers", {})}
    return json.dumps({**message, "headers": headers, **parts})


def test_no_entry_of_a_queue_ends_a_worker_or_takes_up_its_places(
    worker: Any, store: redis.Redis, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "celery.app.trace")  # as a worker does: its INFO lines show answers
    ours = captured(url, store)
    answer = messages.encode({"status": "SUCCESS", "task_id": ours["headers"]["id"], "result": {"ok": True}})
    bomb = base64.b64encode(zlib.compress(bytes(1 << 20))).decode()
    entries: list[str | bytes] = [
        "garbage",
        b"\xff\xfe\x00",
        "1",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps({**ours, "headers": "x"}),
        changed(ours, properties={**ours["properties"], "delivery_tag": []}),
        changed(ours, properties={**ours["properties"], "delivery_info": None}),
        changed(ours, body=base64.b64encode(answer.encode()).decode()),
        changed(ours, **{"content-type": []}),
        changed(ours, headers={"task": []}),
        changed(ours, headers={"eta": "9999-12-31T23:59:59+00:00"}),
        changed(ours, headers={"compression": "zlib"}, body=bomb),
    ]
    for entry in entries:
        for _ in range(6):  # more than it takes at a time
            store.lpush(QUEUE, entry)
    assert ask("still there")["ok"] is True
    assert [command["kind"] for command in ran] == ["still there"]
    assert SECRET not in caplog.text
    places = worker.consumer.task_consumer.channel.qos
    eventually(lambda: places.can_consume_max_estimate() == places.prefetch_count, 20, "no message takes up a place")


def test_a_recorded_answer_is_none_to_another_request(
    worker: Any, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = messages.encode({"status": "SUCCESS", "task_id": "another", "result": {"ok": True}})
    foreign = Keyring([new_key()]).encrypt(Purpose.MESSAGES, b'{"status": "SUCCESS", "result": {"ok": true}}')
    monkeypatch.setattr(transport, "_MOST_BYTES", 1000)
    for poisoned in (recorded, foreign, "x", "[" * 900, messages.encode([[], {}, {}]), "x" * 1001):
        store.set("celery-task-meta-one", poisoned)
        with pytest.raises(Refusal, match="The answer in Redis"):
            transport._result("one", Deadline.after(30), "an answer")


def test_nothing_in_the_place_of_a_clock_or_a_notice_breaks_a_page(store: redis.Redis) -> None:
    redis_clock.publish_offset("worker-1", store)
    entries: list[str | bytes] = ["x", "[", "[1]", "{}", "[NaN, 1]", "[1e400, 1]", "[null, 1]", "[" * 100_000, b"\xff"]
    for number, junk in enumerate(entries):
        store.hset("ringfence:clocks", f"junk-{number}", junk)
    store.hset("ringfence:clocks", b"\xff", json.dumps([0, time.time()]))
    assert list(redis_clock.offsets(store)) == ["worker-1"]
    store.hset("ringfence:clocks", mapping={str(number): "[0, 0]" for number in range(2000)})
    assert redis_clock.offsets(store) == {}
    store.delete("ringfence:clocks")
    names = json.dumps({"changed": ["x" * 100] * 20_000, "moved": []})
    for notice in ("x", b"\xff", "1", "{}", '{"changed": 1, "moved": []}', "[" * 100_000, names):
        assert decode(notice) == ANYTHING


def test_nothing_in_redis_can_be_read_and_an_answer_is_gone_once_it_is_read(
    worker: Any, store: redis.Redis, url: str
) -> None:
    sender = transport.client(url)
    command = {"kind": "waits", "password": SECRET}
    sent = sender.send_task(COMMAND, kwargs={"command": command, "deadline": time.time()}, queue="nobodys")
    dump = everything(store)
    assert str(sent.id).encode() in dump
    assert SECRET.encode() not in dump
    seen: list[bytes] = []
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.is_set():
            for key in store.keys("celery-task-meta-*"):
                raw = store.get(key)
                if isinstance(raw, bytes):
                    seen.append(raw)

    thread = threading.Thread(target=watch)
    thread.start()
    for number in range(50):
        ask(str(number))
        if seen:
            break
    stopped.set()
    thread.join()
    assert seen, "answers were looked at"
    assert not [raw for raw in seen if SECRET.encode() in raw]
    assert store.keys("celery-task-meta-*") == []
    store.delete("nobodys")


def test_nobody_gives_orders_to_the_worker_itself(worker: Any, store: redis.Redis, url: str) -> None:
    """Celery's remote control is not signed: a shutdown, or another pool, at the word of whoever reaches Redis."""
    stranger = Celery("stranger", broker=url, backend=url)
    assert stranger.control.ping(timeout=2) == []
    stranger.control.shutdown()
    stranger.control.pool_shrink(1)
    assert ask("after the orders")["ok"] is True
    stranger.close()
