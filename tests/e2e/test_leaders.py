"""The leader dies, or sleeps and wakes up late: another one leads, and the old one does nothing any more."""

import os
import signal
import time
from collections.abc import Callable

import pytest
import redis
from celery import Celery

from ringfence import messages
from ringfence.encryption import Keyring
from ringfence.engine.celery_host import COMMAND_THREADS
from tests.e2e import processes
from tests.e2e.conftest import await_calm
from tests.e2e.flow import Flow
from tests.e2e.topics import await_other_leader, config_records, leader
from tests.e2e.up import Up
from tests.support.waiting import eventually

Make = Callable[..., Flow]
Note = Callable[[str, float], None]


def test_a_killed_leader_is_followed_by_another(platform: Up, flow: Make, stopwatch: Note) -> None:
    one = flow()
    old = leader(platform)
    killed = time.monotonic()
    os.kill(platform.pid(old.worker), signal.SIGKILL)
    await_other_leader(platform, old)
    stopwatch("another leader after the kill", time.monotonic() - killed)
    one.configure(tasks=3)
    one.await_progress()
    one.settle()


@pytest.mark.slow
def test_a_leader_that_slept_spoils_nothing_of_what_came_meanwhile(platform: Up, flow: Make) -> None:
    before = flow(throughput=100)
    old = leader(platform)
    with platform.frozen([platform.pid(old.worker)]):
        await_other_leader(platform, old)
        meanwhile = flow(tasks=2)
        before.configure(tasks=2)
    await_calm(platform)
    for one in (before, meanwhile):
        one.settle()


@pytest.mark.thorough
def test_a_frozen_leader_executes_no_command_after_its_deadline(
    platform: Up, flow: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, blocker = flow("victim", throughput=100), flow("a-blocker", throughput=2000)
    old = leader(platform)
    sender, queue = Celery("e2e", broker=platform.redis_url), redis.Redis.from_url(platform.redis_url)
    messages.use(sender)
    keys = Keyring(file=platform.data / "encryption-keys")
    monkeypatch.setattr(messages, "keyring", lambda: keys)

    def send(kind: str, connector: str, deadline: float) -> str:
        """Send a command; return the key of its answer."""
        body = {"config": victim.config(throughput="7")} if kind == "configure" else {}
        command = {"kind": kind, "connector": connector, "body": body, "user": "", "request_id": os.urandom(16).hex()}
        arguments = {"command": command, "deadline": deadline}
        return f"celery-task-meta-{sender.send_task('ringfence.leader.command', kwargs=arguments, queue='leader').id}"

    with processes.frozen([blocker.process(blocker.worker_of())]):
        # A stop waits for the round, and the round for the frozen task: so many of them keep the lane's threads busy.
        for _ in range(COMMAND_THREADS):
            send("stop", blocker.name, time.time() + 60)
        eventually(lambda: queue.llen("leader") == 0, 20, "commands under way in all threads")
        deadline = time.time() + 8
        prefetched = [send(kind, victim.name, deadline) for kind in ("pause", "stop", "configure", "restart", "delete")]
        eventually(lambda: queue.llen("leader") == 0, 7, "five prefetched commands, behind those in all threads")
        assert not queue.exists(*prefetched)
        with platform.frozen([platform.pid(old.worker)]):
            before = config_records(platform, victim.name)
            await_other_leader(platform, old)
            eventually(lambda: time.time() > deadline, 20)
    eventually(lambda: queue.exists(*prefetched) == 5, 90, "the end of the prefetched commands")
    await_calm(platform)
    assert config_records(platform, victim.name) == before
    victim.settle()
