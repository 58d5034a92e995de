"""A wheel built from the tree, in an environment of its own and away from the checkout, is the whole product."""

import re
import shlex
import shutil
from pathlib import Path

import httpx

from tests.e2e.up import Up
from tests.support.waiting import eventually
from tests.wheel.installed import PIP, ROOT, run

CONNECTOR = {
    "connector.class": "VerifiableSource",
    "topic": "from-a-wheel",
    "tasks.max": "1",
    "throughput": "10",
}
ONE_API = """
import ringfence, ringfence.connectors.api, ringfence.connectors.api.schemas
import connectors.api, connectors.api.schemas
assert ringfence.connectors.api.SourceTask is connectors.api.SourceTask
assert ringfence.connectors.api.schemas is connectors.api.schemas
import importlib.metadata
names = {file.parts[0] for file in importlib.metadata.files("ringfence")}
assert {name for name in names if not name.startswith(("ringfence", ".."))} == set(), names
print(ringfence.__file__, connectors.__file__)
"""

JAVA_HOST = """
import importlib.metadata, zipfile
from ringfence.local.java_host import JAR
from ringfence.local.java_connectors import build_host
with zipfile.ZipFile(build_host() / JAR) as jar:
    assert "io/ringfence/connect/Host.class" in jar.namelist()
names = {file.name for file in importlib.metadata.files("ringfence")}
assert JAR in names
assert [name for name in names if name.endswith(".java")] == []
"""


def test_authors_import_one_api_under_two_names(home: Path) -> None:
    files = run(home / "venv" / "bin" / "python", "-c", ONE_API, cwd=home).split()
    assert [file for file in files if not file.startswith(str(home))] == []


def test_the_java_part_comes_compiled(home: Path) -> None:
    nothing = {"XDG_CACHE_HOME": str(home / "cache"), "RINGFENCE_MAVEN_URL": "http://127.0.0.1:9/"}
    run(home / "venv" / "bin" / "python", "-c", JAVA_HOST, cwd=home, **nothing)


def test_pages_come_with_their_styles_and_scripts(up: Up) -> None:
    with httpx.Client(base_url=f"http://{up.http}", timeout=60) as client:
        for address in ("/ui/connectors", "/ui/transactions"):
            page = client.get(address)
            assert page.status_code == 200, address
            needed = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text))
            assert {"css", "js"} <= {each.rpartition(".")[2] for each in needed}, address
            assert {each: code for each in needed if (code := client.get(each).status_code) != 200} == {}


def test_a_connector_runs(up: Up) -> None:
    up.rest.settled(201, "POST", "/connectors", {"name": "from-a-wheel", "config": CONNECTOR}, timeout=120)
    with httpx.Client(base_url=f"http://{up.http}", timeout=120) as client:

        def running() -> bool:
            status = client.get("/connectors/from-a-wheel/status").json()
            return [task["state"] for task in status.get("tasks", [])] == ["RUNNING"]

        eventually(running, 180, "a running task of the connector")


def test_the_documented_plugin_works_as_printed(home: Path, up: Up) -> None:
    """The code and the commands of docs/writing-a-connector.md, beside a worker that runs already."""
    text = (ROOT / "docs" / "writing-a-connector.md").read_text()
    package, letters = home / "inbox", home / "letters"
    package.mkdir()
    (package / "inbox.py").write_text(_block(text, "python"))
    (package / "pyproject.toml").write_text(_block(text, "toml"))
    _scaffold, install, use, *_more = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    install = install.replace(".venv/bin/pip install path/to/inbox", _install_command(home, package))
    use = use.replace("http://127.0.0.1:8083", f"http://{up.http}").replace("/tmp/inbox", str(letters))
    client_command = shlex.join(
        [str(home / "venv" / "bin" / "ringfence"), "plugins", "list", "--url", f"http://{up.http}"]
    )
    use = use.replace("ringfence plugins list", client_command)
    run("sh", "-ec", install, cwd=home)
    assert "inbox.InboxConnector" in run("sh", "-ec", use, cwd=home)

    with httpx.Client(base_url=f"http://{up.http}", timeout=120) as client:
        committed = [{"partition": {"folder": str(letters)}, "offset": {"name": "0001.txt"}}]
        eventually(lambda: client.get("/connectors/inbox/offsets").json()["offsets"] == committed, 180, "its offset")

        for name in ("inbox.py", "pyproject.toml"):
            old = (package / name).read_text()
            (package / name).write_text(old.replace("1.0.0", "2.0.0"))
        shutil.rmtree(package / "build", ignore_errors=True)
        run("sh", "-ec", install, cwd=home)
        shown = {plugin["class"]: plugin["version"] for plugin in client.get("/connector-plugins").json()}
        assert shown["inbox.InboxConnector"] == "2.0.0"
        assert client.post("/connectors/inbox/restart").status_code == 204
        told = "Inbox 2.0.0 is installed, 1.0.0 runs. Restart the workers"
        eventually(lambda: told in up.log("worker-1"), 120, "the word about the upgrade")
        assert client.get("/connectors/inbox/status").json()["connector"]["version"] == "1.0.0"


def _block(text: str, language: str) -> str:
    """The first block of code in a language."""
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def _install_command(home: Path, package: Path) -> str:
    """Without a network, into the environment of the wheel."""
    python = home / "venv" / "bin" / "python"
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--force-reinstall")
    return shlex.join([*PIP, "--python", str(python), "install", *options, str(package)])
