"""SIGKILL of task, worker and web process while senders send again what is not answered: each key is there once."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import psutil
import pytest

from tests.e2e import processes, topics
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

SENDERS = 8
TEXT = "org.apache.kafka.connect.storage.StringConverter"


class Hook:
    """A connector that receives, with or without keys."""

    def __init__(self, up: Up, *, keyed: bool) -> None:
        self.up = up
        self.keyed = keyed
        self.name = unique("hook")
        self.url = f"http://{up.http}/hooks/{self.name}"
        key = {"idempotency.key": "header:Idempotency-Key", "exactly.once.support": "required"} if keyed else {}
        self.config = {
            "connector.class": "WebhookSource",
            "tasks.max": "1",
            "topic": self.name,
            "signature": "bearer",
            "signature.secret": "opensesame",
            "body.format": "text",
            "key.converter": TEXT,
            "value.converter": TEXT,
            **key,
        }
        up.rest.create(self.name, self.config)

    def post(self, number: int, client: httpx.Client) -> int:
        headers = {"Idempotency-Key": str(number), "Authorization": "Bearer opensesame"}
        try:
            return client.post(self.url, content=str(number).encode(), headers=headers).status_code
        except httpx.HTTPError:
            return 0

    def once(self, number: int) -> int:
        with httpx.Client(timeout=15) as client:
            return self.post(number, client)

    def records(self) -> Counter[int]:
        return Counter(int(record.value or b"0") for record in topics.read(self.up, self.name))


class Senders:
    """Each of their numbers goes to both connectors, again and again until both have answered with 200."""

    def __init__(self, hooks: list[Hook]) -> None:
        self.hooks = hooks
        self.answered: list[set[int]] = [set() for _ in hooks]
        self.wrong: Counter[int] = Counter()
        self.again = 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(first,)) for first in range(SENDERS)]
        for each in self._threads:
            each.start()

    def _send(self, number: int) -> None:
        with httpx.Client(timeout=15) as client:
            while not self._over.is_set():
                for hook, answered in zip(self.hooks, self.answered, strict=True):
                    while (status := hook.post(number, client)) != 200:
                        if status not in (0, 503):
                            self.wrong[status] += 1
                        self.again += 1
                        time.sleep(0.05)
                    answered.add(number)
                    if number % 10 == 0:  # the sender lost the answer
                        hook.post(number, client)
                number += SENDERS

    def await_more(self, count: int = 100) -> None:
        aims = [len(each) + count for each in self.answered]
        eventually(
            lambda: all(len(each) >= aim for each, aim in zip(self.answered, aims, strict=True)),
            90,
            lambda: f"{[len(each) for each in self.answered]} of {aims}, {self.wrong}",
            pause=0.05,
        )

    def end(self) -> None:
        self._over.set()
        for each in self._threads:
            each.join(90)


@pytest.fixture
def hooks(platform: Up) -> Iterator[list[Hook]]:
    made = [Hook(platform, keyed=True), Hook(platform, keyed=False)]
    yield made
    for hook in made:
        platform.rest.call("DELETE", f"/connectors/{hook.name}")


def listening_tasks(up: Up) -> list[int]:
    """The processes that senders' requests come to."""
    found = []
    for worker in ("worker-1", "worker-2"):
        for pid in processes.tasks(up.pid(worker)):
            if any(each.status == psutil.CONN_LISTEN for each in psutil.Process(pid).net_connections("tcp")):
                found.append(pid)
    return found


def test_each_key_is_there_once_whatever_is_killed(platform: Up, hooks: list[Hook]) -> None:
    senders = Senders(hooks)
    try:
        senders.await_more()
        for kill in ("task", "web", "worker", "task", "web"):
            if kill == "task":
                for pid in listening_tasks(platform):
                    os.kill(pid, signal.SIGKILL)
            elif kill == "web":
                os.kill(platform.pid("web"), signal.SIGKILL)
            else:
                # A worker that runs one of the tasks.
                worker = platform.rest.status(hooks[0].name)["tasks"][0]["worker_id"]
                os.kill(platform.pid(worker), signal.SIGKILL)
            senders.await_more()
    finally:
        senders.end()
    assert not senders.wrong, "nothing but 503 may come in between"
    exact, control = (hook.records() for hook in hooks)
    print(f"{len(exact)} answered, {senders.again} sent again, {control.total()} records without keys")
    assert set(exact) == senders.answered[0], "missing, or there without an answer"
    assert exact.total() == len(exact), "a key is there twice"
    assert not senders.answered[1] - control.keys()
    assert control.total() > len(control), "without keys something must be there twice, else this test sees nothing"


def test_who_pauses_stops_and_deletes_is_answered_for(platform: Up, hooks: list[Hook]) -> None:
    rest, hook = platform.rest, hooks[0]
    eventually(lambda: hook.once(1) == 200, 60, "the first answer")
    rest.settled(202, "PUT", f"/connectors/{hook.name}/pause")
    eventually(lambda: hook.once(2) == 503, 30, "no answer from a paused connector")
    rest.settled(202, "PUT", f"/connectors/{hook.name}/resume")
    eventually(lambda: hook.once(3) == 200, 30, "an answer after the pause")
    assert hook.once(3) == 200
    with httpx.Client() as client:
        refused = client.post(hook.url, content=b"4", headers={"Idempotency-Key": "4"})
        assert refused.status_code == 401
        assert "opensesame" not in refused.text
        assert client.get(hook.url).status_code == 405
        assert client.post(hook.url, content=b"x" * 600_000).status_code == 413
    platform.rest.settled(204, "PUT", f"/connectors/{hook.name}/stop")
    eventually(lambda: hook.once(5) == 503, 30, "no answer from a stopped connector")
    found = hook.records()
    assert found[1] == found[3] == 1
    assert found.keys() <= {1, 2, 3}
    rest.settled(204, "DELETE", f"/connectors/{hook.name}")
    eventually(lambda: hook.once(6) == 404, 30, "a deleted connector is no webhook")
    shown = rest.call("GET", "/connectors").text + platform.log("web") + platform.log("worker-1")
    assert "opensesame" not in shown
    assert hook.records() == found


def test_exactly_once_is_required_in_vain_without_a_key(platform: Up, hooks: list[Hook]) -> None:
    config = {**hooks[1].config, "exactly.once.support": "required"}
    answer = platform.rest.call("PUT", f"/connectors/{hooks[1].name}/config", config)
    assert answer.status_code == 400
    assert "exactly" in answer.text
