"""A configuration names files below the worker's `file.roots` only: an editor is not the worker's user."""

import contextlib
import os
from pathlib import Path

import psutil
import pytest

from ringfence.connectors.sdk import files, worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.security.end_to_end.site import Site
from tests.support.names import unique

pytestmark = pytest.mark.timeout(300)

FILE = "FileStreamSource"
CLOSED = "not below a folder that connectors may read"


def test_an_editor_reads_neither_the_machines_files_nor_the_platforms(site: Site, lines: Path) -> None:
    key, database = site.up.data / "secret-key", site.up.data / "ringfence.sqlite3"
    link = lines.with_name("link")
    link.symlink_to(key)
    dots = f"{lines.parent}/../{lines.parent.name}/../../../../../..{key}"
    outside = ["/etc/shadow", f"/proc/{os.getpid()}/environ", "/proc/self/environ", "/sys/kernel/notes", "/dev/zero"]
    for path in (*outside, str(key), str(database), f"{database}-wal", str(link), dots):
        assert CLOSED in site.refused(**{"connector.class": FILE, "file": path, "topic": "team-a-x"})
    for path in (str(key), str(link)):
        body = {"config": {"connector.class": FILE, "file": path, "topic": "t", "name": unique("team-a")}}
        answer = site.editor.started("POST", "/api/v1/preview", body)
        assert answer.status_code == 400, answer.text
        assert CLOSED in answer.text
    for name in ("producer.override.ssl.truststore.location", "value.converter.schema.registry.ssl.key.location"):
        config = {"connector.class": FILE, "file": str(lines), "topic": "team-a-x", name: str(key)}
        assert CLOSED in site.refused(**config)


def test_the_task_looks_again(site: Site, lines: Path) -> None:
    """Validation saw an innocent file; by the time that the task opens it, it is a link to the key."""
    config = {"connector.class": FILE, "file": str(lines), "topic": unique("team-a")}
    name = site.create(site.editor, **config)
    site.running(name)
    site.editor.expect(204, "PUT", f"/connectors/{name}/stop")
    lines.unlink()
    lines.symlink_to(site.up.data / "secret-key")
    site.editor.expect(202, "PUT", f"/connectors/{name}/resume")
    assert CLOSED in site.failure(name)
    site.editor.expect(204, "DELETE", f"/connectors/{name}")


def test_a_link_that_is_exchanged_between_the_look_and_the_opening_gains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, secret = tmp_path / "inside", tmp_path / "secret"
    inside.mkdir()
    (inside / "file").write_text("innocent")
    secret.write_text("secret")
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits((str(inside),))])
    os.close(files.open_allowed(str(inside / "file")))
    opened = os.open

    def exchanged(path: str, flags: int) -> int:
        (inside / "file").unlink()
        (inside / "file").symlink_to(secret)
        return opened(path, flags)

    monkeypatch.setattr(os, "open", exchanged)
    with pytest.raises(files.ClosedFile):
        files.open_allowed(str(inside / "file"))


def test_the_data_folder_is_closed_whatever_the_roots_say(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "key").write_text("secret")
    hard = tmp_path / "hard-link"
    hard.hardlink_to(data / "key")
    limits = WorkerLimits(("/", str(data), str(data / "key")), (str(data), str(data / "key")))
    for path in (data / "key", hard, Path("/proc/self/environ"), Path("/dev/null")):
        with pytest.raises(files.ClosedFile):
            files.check(str(path), limits)
    files.check(str(tmp_path / "other"), limits)


def test_without_roots_no_file_is_read_and_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(files.ClosedFile, match=r"CONNECT_FILE_ROOTS"):
        files.check(str(tmp_path), WorkerLimits())


def test_the_platforms_secrets_are_in_no_process_that_runs_plugins(site: Site, lines: Path) -> None:
    """A task's, a plugin's and Spark's environment, as the kernel shows it to the same user."""
    name = site.create(site.editor, **{"connector.class": FILE, "file": str(lines), "topic": unique("team-a")})
    site.running(name)
    worker = psutil.Process(site.up.pid("worker-1"))
    assert "RINGFENCE_SECRET_KEY" not in worker.environ()
    assert "RINGFENCE_TOKEN" not in worker.environ()
    started = worker.children(recursive=True)
    assert len(started) > 4, "plugin processes, Spark's JVM, its daemon, and a task"
    ours: set[str] = set()
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):  # a preview's ends with it
            ours |= {name for name in process.environ() if name.startswith(("RINGFENCE_", "CONNECT_"))}
    harmless = {"RINGFENCE_CONNECTOR_LIMITS", "RINGFENCE_CONFIG_PROVIDERS", "RINGFENCE_PLATFORM_PROCESS"}
    assert ours <= harmless, ours
    site.editor.expect(204, "DELETE", f"/connectors/{name}")
