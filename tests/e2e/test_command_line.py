"""The command line client as people run it: processes of their own, against the running platform."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from ringfence.client.output import Exit
from tests.e2e.up import Up, environment
from tests.support.names import unique
from tests.support.waiting import eventually


class Shell:
    """`run("connectors", "list")`, in a home of its own."""

    def __init__(self, up: Up, home: Path) -> None:
        self.env = environment({"RINGFENCE_URL": up.rest.url, "XDG_CONFIG_HOME": str(home)})

    def start(self, *words: str, text: str = "", to: IO[str] | None = None) -> "subprocess.Popen[str]":
        """On its way already. text: its standard input; to: a file for its output."""
        command = [str(Path(sys.executable).with_name("ringfence")), *words]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=to or pipe, stderr=pipe, text=True, env=self.env)
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None  # `communicate` would flush it
        return process

    def run(self, *words: str, code: int = 0, text: str = "") -> str:
        """What it prints on standard output, of a failure on standard error."""
        return ended(self.start(*words, text=text), code)

    def side_by_side(self, *commands: Sequence[str]) -> list[str]:
        """What each of them prints: they change nothing that the others look at."""
        return [ended(process) for process in [self.start(*words) for words in commands]]

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-o", "json"))


def ended(process: "subprocess.Popen[str]", code: int = 0) -> str:
    out, err = process.communicate(timeout=150)
    assert process.returncode == code, f"{process.args!r}: {process.returncode}\n{out}\n{err}"
    return err if code else out


@pytest.fixture
def shell(platform: Up, tmp_path: Path) -> Shell:
    return Shell(platform, tmp_path)


@pytest.fixture
def name(platform: Up) -> Iterator[str]:
    made = unique("cli")
    yield made
    platform.rest.call("DELETE", f"/connectors/{made}")


def definition(name: str, throughput: int) -> str:
    config = {"connector.class": "VerifiableSource", "topic": name, "tasks.max": "2", "throughput": str(throughput)}
    return json.dumps({"name": name, "config": config})


@pytest.mark.thorough
def test_a_connectors_life_from_the_command_line(shell: Shell, name: str, platform: Up) -> None:
    shell.run("connectors", "apply", "-f", "-", "--wait", text=definition(name, 20))
    told = shell.side_by_side(
        ("transactions", "list", name),
        ("workers", "list"),
        ("connectors", "get", name),
        ("connectors", "log-level", name, "DEBUG", "--minutes", "5"),
    )
    assert [row.split()[:3] for row in told[0].splitlines()[1:]] == [
        [name, str(task), f"ringfence-{name}-{task}"] for task in (0, 1)
    ]
    assert {row.split()[0] for row in told[1].splitlines()[1:]} == {"worker-1", "worker-2"}
    assert f"{name}: RUNNING, tasks: 2 RUNNING" in told[2]
    assert "DEBUG" in told[3]

    shell.run("connectors", "apply", "-f", "-", text=definition(name, 30))
    told = shell.side_by_side(("connectors", "diff", name, "1"), ("connectors", "versions", name, "-o", "json"))
    assert "throughput = 20 -> 30" in told[0]
    assert [row["number"] for row in json.loads(told[1])] == [2, 1]
    assert "throughput = 30 -> 20" in shell.run("connectors", "rollback", name, "1", "--yes", "--wait")

    fenced = shell.run("connectors", "fence", name, "--reason", "to see it done", "--wait")
    assert f"ringfence-{name}-0" in fenced
    assert f"ringfence-{name}-1" in fenced
    shell.run("connectors", "stop", name, "--wait")
    shell.run("offsets", "snapshot", name, "--why", "before")
    before = platform.rest.expect(200, "GET", f"/connectors/{name}/offsets")
    shell.run("offsets", "set", name, "--partition", '{"id": 0}', "--offset", '{"seqno": 0}')
    assert platform.rest.expect(200, "GET", f"/connectors/{name}/offsets") != before
    shell.run("offsets", "undo", name, "--yes")
    assert platform.rest.expect(200, "GET", f"/connectors/{name}/offsets") == before
    told = shell.side_by_side(
        ("connectors", "events", name, "--kind", "round"),
        ("connectors", "logs", name),
        ("offsets", "snapshots", name, "-o", "json"),
    )
    assert "2 older transactional ids fenced" in told[0]
    assert "task" in told[1].lower()
    assert "before" in [row["why"] for row in json.loads(told[2])]


@pytest.mark.slow
def test_what_goes_wrong_is_told_by_exit_codes(shell: Shell, name: str, platform: Up, tmp_path: Path) -> None:
    assert name in shell.run("connectors", "get", name, code=Exit.NOT_FOUND)
    shell.run("connectors", "list", "--url", "http://127.0.0.1:1", code=Exit.NOT_REACHED)
    file = tmp_path / "c.json"
    file.write_text(definition(name, 20))
    assert "would be created" in shell.run("connectors", "create", "-f", str(file), "--dry-run")
    shell.run("connectors", "create", "-f", str(file), "--wait")
    shell.run("connectors", "create", "-f", str(file), code=Exit.CONFLICT)
    shell.run("offsets", "reset", name, "--yes", code=Exit.INVALID)  # it runs
    shell.run("connectors", "delete", name, code=Exit.USAGE)  # nobody is there to ask
    (open_now,) = [row for row in shell.json("transactions", "list", name) if row["task"] == 0]
    shell.run("transactions", "end", name, open_now["id"], "--reason", "to see it done", "--yes")
    shell.run("connectors", "restart", name, "--tasks", "--wait")
    shell.run("connectors", "pause", name, "--wait")
    shell.run("connectors", "resume", name, "--wait")
    shell.run("tasks", "restart", name, "1", "--wait")
    shell.run("connectors", "delete", name, "--yes", "--wait")
    shell.run("connectors", "get", name, code=Exit.NOT_FOUND)


@pytest.mark.slow
def test_following_ends_with_ctrl_c(shell: Shell, name: str, tmp_path: Path) -> None:
    shell.run("connectors", "apply", "-f", "-", "--wait", text=definition(name, 20))
    seen = tmp_path / "seen.txt"
    with seen.open("w") as file:
        process = shell.start("connectors", "events", name, "--follow", to=file)
    eventually(lambda: "round" in seen.read_text(), 60, "what has happened before", pause=0.2)
    shell.run("connectors", "restart", name, "--tasks")
    eventually(lambda: "attempt 2" in seen.read_text(), 60, seen.read_text, pause=0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_a_workers_health_check_asks_the_group(shell: Shell, platform: Up) -> None:
    shell.env = environment(platform.kafka_variables)
    there, nobody = (shell.start("worker", "--id", worker, "--check") for worker in ("worker-1", "worker-9"))
    assert "worker-1 is a member of group ringfence" in ended(there)
    assert "Group ringfence has no member worker-9" in ended(nobody, 1)
