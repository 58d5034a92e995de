"""The demo's button ends the worker's process and no other; without the demo neither it nor its route is there."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import clear_url_caches

import ringfence.urls
from ringfence.access.models import Grant
from ringfence.audit.models import AuditEntry
from ringfence.local.data_directory import DataDirectory
from ringfence.local.environment import DEMO_RUN_FOLDER, complete, for_demo
from ringfence.projection.models import Task
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

ROUTE = "/ui/demo/kill-worker"
TAB = "/ui/connectors/flights/transactions"
Start = Callable[..., "subprocess.Popen[bytes]"]


def _load_routes() -> None:
    importlib.reload(ringfence.urls)
    clear_url_caches()


@pytest.fixture
def run_folder(tmp_path: Path) -> Iterator[Path]:
    """As `ringfence demo` starts the web process."""
    with override_settings(DEMO_RUN_FOLDER=tmp_path):
        _load_routes()
        yield tmp_path
    _load_routes()


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t"))
    leader.start("flights", tasks=1)
    Task.objects.update(worker="worker-1")
    return leader


@pytest.fixture
def start(run_folder: Path) -> Iterator[Start]:
    """A process that waits, with the arguments of a worker or others, and its pid file."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", "import sys; sys.stdin.read()", "-m", "ringfence.cli", *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        (run_folder / f"{name}.pid").write_text(f"{started[-1].pid}\n")
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_elsewhere_there_is_no_route_and_no_button(client: Client, flights: FakeLeader) -> None:
    assert client.post(ROUTE, {"worker": "worker-1"}).status_code == 404
    assert "SIGKILL" not in text(client.get(TAB))


def test_the_button_kills_the_worker_and_leaves_an_entry(
    client: Client, flights: FakeLeader, run_folder: Path, start: Start
) -> None:
    worker = start("worker-1", "worker", "--id", "worker-1", "--slots", "8")
    assert "SIGKILL worker-1" in text(client.get(TAB))
    assert client.get(ROUTE).status_code == 405
    response = client.post(ROUTE, {"worker": "worker-1"})
    assert response.status_code == 200, text(response)
    assert worker.wait(10) == -9
    entry = AuditEntry.objects.get(action="kill worker")
    assert f'"process": {worker.pid}' in entry.before
    assert client.post(ROUTE, {"worker": "worker-1"}).status_code == 409


@pytest.mark.parametrize("name", ["../worker-1", "web", "kafka", "worker-2", "worker-1/../kafka", ""])
def test_nothing_else_is_killed(client: Client, flights: FakeLeader, run_folder: Path, start: Start, name: str) -> None:
    others = [start("web", "web", "--http", "x"), start("kafka", "worker", "--id", "kafka")]
    others.append(start("worker-2", "web"))  # a file that outlived its process, whose id another one has now
    assert client.post(ROUTE, {"worker": name}).status_code == 409
    assert [each.poll() for each in others] == [None] * 3


def test_it_needs_the_right_to_administer_everything(client: Client, flights: FakeLeader, start: Start) -> None:
    worker = start("worker-1", "worker", "--id", "worker-1")
    user = User.objects.create_user("ann", password="right-password-1")
    Grant.objects.create(user=user, what="operator", pattern="*")
    with override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"]):
        assert client.post("/ui/login", {"name": "ann", "secret": "right-password-1"}).status_code == 302
        assert "SIGKILL" not in text(client.get(TAB))
        assert client.post(ROUTE, {"worker": "worker-1"}).status_code == 403
    assert worker.poll() is None


def test_only_the_demo_sets_it(tmp_path: Path) -> None:
    instance = DataDirectory(tmp_path)
    given = {DEMO_RUN_FOLDER: "/somewhere", "RINGFENCE_SECRET_KEY": "s", "RINGFENCE_ENCRYPTION_KEYS": "k"}
    env = complete(given, instance, bootstrap="b", embedded_kafka=True, redis_url="r", http="127.0.0.1:1")
    assert DEMO_RUN_FOLDER not in env
    assert for_demo(env, instance)[DEMO_RUN_FOLDER] == str(instance.pid_file("worker-1").parent)
