"""A running platform that asks for a login, with an administrator and an editor of `team-a-*` only."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.rest import Rest
from tests.e2e.up import Up, environment
from tests.support.names import unique
from tests.support.waiting import eventually

BOSS = "the-token-of-the-administrator"


@dataclass
class Site:
    """`boss` may do everything, `editor` may edit connectors `team-a-*` and look at their data."""

    up: Up
    boss: Rest
    editor: Rest

    def run(self, *arguments: str) -> str:
        """The output of a `ringfence` command on this site's database."""
        command = [sys.executable, "-m", "ringfence.cli", *arguments, "--data", str(self.up.data)]
        return subprocess.run(command, env=environment({}), check=True, capture_output=True, text=True).stdout

    def create(self, rest: Rest, **config: str) -> str:
        """A connector of this configuration that is there; its name."""
        name = unique("team-a")
        rest.create(name, {"tasks.max": "1", **config})
        return name

    def refused(self, **config: str) -> str:
        """What the editor is told who asks for such a connector."""
        answer = self.editor.call("POST", "/connectors", {"name": unique("team-a"), "config": config})
        assert answer.status_code in (400, 403), f"{answer.status_code} {answer.text}"
        return answer.text

    def running(self, name: str) -> None:
        """Wait until the connector's task runs."""

        def runs() -> bool:
            tasks = self.boss.status(name)["tasks"]
            return bool(tasks) and tasks[0]["state"] == "RUNNING"

        eventually(runs, 90, f"{name} runs", pause=0.3)

    def failure(self, name: str) -> str:
        """The trace of the connector's task, once it has failed."""

        def failed() -> str:
            tasks = self.boss.status(name)["tasks"]
            assert tasks, "no task yet"
            assert tasks[0]["state"] == "FAILED", tasks
            return str(tasks[0]["trace"])

        return eventually(failed, 90, f"the task of {name} fails", pause=0.3)


@contextmanager
def running_site(up: Up, *limits: str) -> Iterator[Site]:
    """`up` from its start to its end, with both accounts; `limits`: further options of the editor's."""
    up.http = up.http.replace("127.0.0.1", "0.0.0.0")
    with up:
        url = up.http.replace("0.0.0.0", "127.0.0.1")
        with closing(Rest(f"http://{url}")) as boss, closing(Rest(f"http://{url}")) as editor:
            site = Site(up, boss, editor)
            rights = ["--allow", "editor", "--pattern", "team-a-*", *limits]
            site.run("users", "create", "editor", "--no-password", *rights)
            token = site.run("tokens", "create", "editor", "work", "--allow", "admin").strip()
            for rest, secret in ((site.boss, BOSS), (site.editor, token)):
                rest._client.headers["Authorization"] = f"Bearer {secret}"
            eventually(lambda: site.boss.call("GET", "/health").status_code == 200, 60, "a leader", pause=0.3)
            yield site


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(Up(tmp_path_factory.mktemp("site"), settings={"RINGFENCE_TOKEN": BOSS})) as made:
        yield made


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file that the editor's connectors may read."""
    path = tmp_path / "lines.txt"
    path.write_text("one\n")
    os.chmod(path, 0o644)
    return path
