"""What `ringfence up` has started needs a login as strangers do, however it hides; its user's other processes do not.

A process of ours stands for `up`: it starts others in real guards. This test's own process is the user's shell.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ringfence.connectors.process_tree import MARK
from tests.security.servers import Web, clean_environment, migrate, serving
from tests.support.waiting import eventually

TOKEN = "a-token-of-at-least-24-characters"

UP = """
import json, sys
from pathlib import Path
from ringfence.local.guarded_process import GuardedProcess
kept = []
for line in sys.stdin:
    command, log = json.loads(line)
    kept.append(GuardedProcess.start("peer", command, log=Path(log)))
"""

PEER = """
import os, signal, sys, time, urllib.error, urllib.request
url, out, *steps = sys.argv[1:]
def wait_for_the_answer():
    while not os.path.exists(out):
        time.sleep(0.05)
while steps:
    step = steps.pop(0)
    if step == "leader":  # stays, since a guard ends what a process leaves behind
        if os.fork():
            wait_for_the_answer()
            sys.exit()
    if step == "fork" and os.fork():
        os._exit(0)
    if step == "session":
        os.setsid()
    if step == "nohup":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if step == "clean":
        os.execve(sys.executable, [sys.executable, __file__, url, out, *steps], {})
try:
    status = urllib.request.urlopen(url, timeout=30).status
except urllib.error.HTTPError as error:
    status = error.code
with open(out + ".new", "w") as file:
    file.write(str(status))
os.rename(out + ".new", out)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tree")
    migrate(made)
    (made / "peer.py").write_text(PEER)
    return made


@pytest.fixture(scope="module")
def up(root: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", UP], stdin=subprocess.PIPE, text=True, env=clean_environment(root)
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def command(ended: Path) -> list[str]:
    return ["ringfence.cli", "web", "--http", "ADDRESS", "--no-login", "same-user", "--no-login-ended", str(ended)]


@pytest.fixture(scope="module")
def web(root: Path, up: "subprocess.Popen[str]") -> Iterator[Web]:
    with serving(root, command(root / "ended"), {MARK: str(up.pid), "RINGFENCE_TOKEN": TOKEN}) as served:
        yield served


def answer_to(out: Path) -> int:
    return int(eventually(lambda: out.exists() and out.read_text(), 60, lambda: "an answer", pause=0.05))


def test_its_user_needs_no_login(web: Web, root: Path, tmp_path: Path) -> None:
    assert web.get().status_code == 200
    out = tmp_path / "answer"
    asked = [sys.executable, str(root / "peer.py"), f"http://{web.address}/connectors", str(out)]
    subprocess.run(asked, env=clean_environment(root), check=True, timeout=60)
    assert answer_to(out) == 200, "a process that this one has started"


@pytest.mark.parametrize(
    "steps",
    [
        "",
        "leader",
        "leader session",
        "leader fork session fork nohup",
        "clean",
        "leader clean session fork",
        "leader fork session clean fork nohup",
    ],
)
def test_what_it_started_does(web: Web, up: "subprocess.Popen[str]", root: Path, tmp_path: Path, steps: str) -> None:
    out = tmp_path / "answer"
    asked = [sys.executable, str(root / "peer.py"), f"http://{web.address}/connectors", str(out), *steps.split()]
    assert up.stdin is not None
    up.stdin.write(json.dumps([asked, str(tmp_path / "log")]) + "\n")
    up.stdin.flush()
    assert answer_to(out) == 401


def test_what_a_killed_guard_left_behind_does(web: Web, root: Path, tmp_path: Path) -> None:
    """It is nobody's descendant any more, and has the mark."""
    out = tmp_path / "answer"
    asked = [sys.executable, str(root / "peer.py"), f"http://{web.address}/connectors", str(out), "fork", "session"]
    subprocess.run(asked, env={**clean_environment(root), MARK: "1"}, check=True, timeout=60)
    assert answer_to(out) == 401


@pytest.mark.thorough
def test_the_web_process_itself_does(root: Path, tmp_path: Path) -> None:
    """Without `up`, whoever web itself starts."""
    with serving(root, command(tmp_path / "ended"), {}) as alone:
        assert alone.get().status_code == 200
    with serving(root, command(tmp_path / "ended"), {MARK: str(os.getpid())}) as below:
        assert below.get().status_code == 401, "this process is `up`"


def manage(root: Path, *arguments: str) -> str:
    asked = [sys.executable, "-m", "ringfence.cli", *arguments]
    return subprocess.run(
        asked, env=clean_environment(root), check=True, capture_output=True, text=True, timeout=60
    ).stdout


@pytest.mark.thorough
def test_it_ends_with_the_first_account(tmp_path: Path) -> None:
    migrate(tmp_path)
    ended = tmp_path / "ended"
    with serving(tmp_path, command(ended), {"RINGFENCE_TOKEN": TOKEN}) as web, httpx.Client() as kept:
        page = f"http://{web.address}/connectors"
        assert kept.get(page, timeout=30).status_code == 200
        assert not ended.exists()
        manage(tmp_path, "users", "create", "ann", "--no-password", "--allow", "viewer")
        assert kept.get(page, timeout=30).status_code == 401, "on an open connection, too"
        assert web.get().status_code == 401
        assert web.get(authorization=f"Bearer {TOKEN}").status_code == 200
        assert ended.exists()
        log = (tmp_path / f"web-{web.port}.log").read_text()
        assert log.count("A login is required from now on") == 1
        remove_accounts(tmp_path)
        assert web.get().status_code == 401, "it does not open again by itself"
    with serving(tmp_path, command(ended), {}) as again:
        assert again.get().status_code == 401, "nor when its web process starts again"
    ended.unlink()  # as `up` does at its start
    manage(tmp_path, "users", "create", "bob", "--no-password", "--allow", "viewer")
    with serving(tmp_path, command(ended), {}) as late:
        assert ended.exists(), "before anybody asks"
        assert late.get().status_code == 401


def remove_accounts(root: Path) -> None:
    code = "import django; django.setup(); from django.contrib.auth.models import User; User.objects.all().delete()"
    subprocess.run([sys.executable, "-c", code], env=clean_environment(root), check=True, timeout=60)
