"""Clocks that are minutes apart change nothing about deadlines, and are told."""

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.test import Client

from ringfence import clock_differences, dispatch, messages, redis_clock, transport
from ringfence.dispatch import Refusal
from ringfence.engine.questions import ListPlugins
from ringfence.local.valkey import EmbeddedValkey
from tests.support.commands import command_named
from tests.support.waiting import eventually

real_command = dispatch.command  # before the stand-in of the other tests takes its place
real_ask = dispatch.ask
MINUTES = 600.0


def use(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setattr(transport, "app", transport.client(url))
    monkeypatch.setattr(transport, "results", transport.store(url))


@pytest.fixture(scope="module")
def workers(valkey: EmbeddedValkey) -> Iterator[dict[float, str]]:
    """For each worker, by how far its clock is ahead of ours in seconds: the Redis database that it has for itself."""
    urls = {-MINUTES: urlsplit(valkey.url)._replace(path="/1").geturl()}
    urls[MINUTES] = urlsplit(valkey.url)._replace(path="/2").geturl()
    processes = []
    try:
        for ahead, url in urls.items():
            transport.store(url).flushdb()
            command = [sys.executable, "-m", "tests.support.skewed_worker", str(ahead), "worker-1"]
            processes.append(subprocess.Popen(command, env={**os.environ, "RINGFENCE_REDIS_URL": url}))
        yield urls
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(params=[-MINUTES, MINUTES], ids=["behind", "ahead"])
def skewed(request: pytest.FixtureRequest, workers: dict[float, str], monkeypatch: pytest.MonkeyPatch) -> float:
    """A worker whose clock is so many seconds ahead of ours."""
    use(monkeypatch, workers[request.param])
    eventually(lambda: "worker-1" in redis_clock.offsets(transport.results), 60, "the worker's clock")
    return float(request.param)


def test_deadlines_hold_and_the_difference_is_told(skewed: float, client: Client) -> None:
    assert real_ask(ListPlugins(), 60) == [{"class": "X"}]
    told = real_command(command_named("pause", "c"), timeout=60).value
    assert not told["expired"]
    assert 30 < told["left"] <= 60, "what is left of the sender's own time"
    assert redis_clock.offsets(transport.results)["worker-1"] == pytest.approx(skewed, abs=2)
    clock_differences.clocks.forget()
    page = client.get("/ui/").content.decode()
    ahead = "worker-1 is" if skewed > 0 else "web is"
    assert "Clocks differ" in page
    assert ahead in page
    clock_differences.clocks.forget()


def test_what_is_late_is_not_done(skewed: float) -> None:
    late = {"deadline": redis_clock.now(transport.results) - 1}
    sent = transport.app.send_task("ringfence.plugins.list", kwargs=late, queue="plugins")
    answer = eventually(lambda: transport.results.get(f"celery-task-meta-{sent.id}"), 30, "the answer")
    assert isinstance(answer, bytes)
    assert "timed out before a worker got to it" in messages.decode(answer)["result"]["message"]


def test_nothing_that_is_sent_expires_by_somebodys_clock(
    valkey: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, valkey.url)
    transport.results.flushdb()
    with pytest.raises(Refusal, match="timed out"):
        real_ask(ListPlugins(), 0.1)
    message = transport.results.lindex("plugins", 0)
    assert isinstance(message, bytes)
    assert b'"expires": null' in message
    transport.results.flushdb()


def test_little_is_not_told() -> None:
    assert (
        clock_differences.describe_largest({})
        == clock_differences.describe_largest({"web": 0.1, "worker-1": -1.5})
        == ""
    )
    assert clock_differences.describe_largest({"web": 0.5, "a": -31.0, "b": 0.7}) == "b is 31.7 s ahead of a"
