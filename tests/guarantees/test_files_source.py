"""FilesSource under the kernel: each line of each file once, whoever is killed, and no file deleted too early."""

import gzip
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from ringfence.connectors.builtin.files.task import FilesSourceTask
from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.stage import Stage
from tests.support.attempts import WITHOUT_TRANSACTIONS, Attempts
from tests.support.azurite import Azurite
from tests.support.cases import mark_cases
from tests.support.gcs import GcsServer
from tests.support.s3 import S3Server
from tests.support.sftp import SftpServer
from tests.support.waiting import eventually

TEXT = "org.apache.kafka.connect.storage.StringConverter"
FILES, LINES = 24, 1000


@pytest.fixture
def sftp(tmp_path: Path) -> Iterator[SftpServer]:
    server = SftpServer(tmp_path / "sftp").start()
    yield server
    server.stop()


@pytest.mark.parametrize("after", mark_cases(["keep", "delete"], thorough={"keep"}))
def test_each_line_once_while_tasks_are_killed(stage: Stage, tmp_path: Path, after: str) -> None:
    folder = tmp_path / "in"
    worker = {"file.roots": str(tmp_path), "file.write.roots": str(tmp_path)}
    _read_while_tasks_are_killed(stage, Folder(folder), after, {"url": f"file://{folder}", "settle.ms": "0"}, worker)


@pytest.mark.slow
def test_without_transactions_lines_come_twice(stage: Stage, tmp_path: Path) -> None:
    """So the test above can tell."""
    folder = tmp_path / "in"
    settings, worker = {"url": f"file://{folder}", "settle.ms": "0"}, {"file.roots": str(tmp_path)}
    with pytest.raises(AssertionError, match="there twice"):
        _read_while_tasks_are_killed(stage, Folder(folder), "keep", settings, {**worker, **WITHOUT_TRANSACTIONS})
    assert {*stage.visible()} == {*range((FILES + 1) * LINES)}


@pytest.mark.slow
@pytest.mark.parametrize("after", ["keep", "delete"])
def test_each_line_once_over_sftp_while_tasks_and_server_are_killed(stage: Stage, sftp: SftpServer, after: str) -> None:
    def restart() -> None:
        sftp.stop()
        sftp.start()

    settings = {**sftp.settings(), "poll.interval.ms": "500"}
    _read_while_tasks_are_killed(
        stage, Folder(sftp.folder / "in"), after, settings, {"egress.allow": "loopback"}, restart
    )


@pytest.mark.slow
@pytest.mark.parametrize("after", ["keep", "delete"])
@pytest.mark.parametrize("kind", [S3Server, GcsServer, Azurite])
def test_each_line_once_in_object_stores_while_tasks_and_server_are_killed(
    stage: Stage, tmp_path: Path, kind: type[S3Server | GcsServer | Azurite], after: str
) -> None:
    server = kind(tmp_path / "server").start()

    def restart() -> None:
        server.stop()
        server.start()

    try:
        settings = {**server.settings(), "settle.ms": "0", "poll.interval.ms": "500"}
        _read_while_tasks_are_killed(stage, server, after, settings, {"egress.allow": "loopback"}, restart)
    finally:
        server.stop()


class Store(Protocol):
    """Where files are written."""

    def write(self, name: str, data: bytes) -> None: ...

    def files(self) -> list[str]: ...


class Folder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir()

    def write(self, name: str, data: bytes) -> None:
        (self._path / name).write_bytes(data)

    def files(self) -> list[str]:
        return sorted(path.name for path in self._path.iterdir())


def _read_while_tasks_are_killed(
    stage: Stage,
    store: Store,
    after: str,
    settings: dict[str, str],
    worker: dict[str, str],
    disturb: Callable[[], None] = lambda: None,
) -> None:
    for number in range(FILES):
        lines = b"".join(b"%d\n" % line for line in range(number * LINES, (number + 1) * LINES))
        compressed = number % 3 == 0
        store.write(f"{number:03}.txt{'.gz' if compressed else ''}", gzip.compress(lines, 1) if compressed else lines)
    config = {
        "name": str(stage.connector),
        "connector.class": "FilesSource",
        "tasks.max": "1",
        **settings,
        "topic": stage.data,
        "format": "text",
        "after": after,
        "batch.size": "200" if after == "keep" else "20",
        "files.share": "0/1",
        "key.converter": TEXT,
        "value.converter": TEXT,
        # Deleted too early shows where several files are read in a transaction.
        **({} if after == "keep" else {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "200"}),
        "exactly.once.support": "required",
    }
    total = FILES * LINES
    with Attempts(stage, config, FilesSourceTask, worker) as attempts:
        for part in (0.1, 0.4):
            attempts.start()
            attempts.await_visible(int(total * part) + random.randint(1, total // 5), distinct=True)
            attempts.newest.kill()
            disturb()
        attempts.start()
        disturb()
        store.write("last.txt", b"".join(b"%d\n" % line for line in range(total, total + LINES)))
        total += LINES  # so that it certainly runs when it is stopped
        attempts.await_visible(total, distinct=True)
        if after == "delete":
            eventually(lambda: not store.files(), 30, lambda: str(store.files()))
        assert attempts.newest.stop()["trace"] is None
        assert sorted(stage.visible()) == list(range(total)), "a line is missing, or there twice"
        assert len(store.files()) == (FILES + 1 if after == "keep" else 0)


@pytest.mark.thorough
def test_lines_that_cannot_be_read_are_dead_letters_once_while_tasks_are_killed(stage: Stage, tmp_path: Path) -> None:
    total, letters = 20_000, f"{stage.data}-bad"
    lines = [b"%d" % number if number % 7 else b"bad %d" % number for number in range(total)]
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines), 1))
    config = {
        "name": str(stage.connector),
        "connector.class": "FilesSource",
        "tasks.max": "1",
        "url": f"file://{folder}",
        "settle.ms": "0",
        "topic": stage.data,
        "format": "jsonl",
        "batch.size": "20",
        "files.share": "0/1",
        "key.converter": TEXT,
        "value.converter": TEXT,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "exactly.once.support": "required",
    }
    good = [number for number in range(total) if number % 7]
    with Attempts(stage, config, FilesSourceTask, {"file.roots": str(tmp_path)}) as attempts:
        for part in (0.1, 0.5, 1.0):
            attempts.start()
            attempts.await_visible(int(len(good) * part), distinct=True)
            if part < 1:
                attempts.newest.kill()
        eventually(lambda: len(_values(stage, letters)) >= total - len(good), 60, lambda: attempts.newest.log)
        assert attempts.newest.stop()["trace"] is None
        assert stage.visible() == good, "a line is missing, or there twice"
        assert _values(stage, letters) == [line for line in lines if line.startswith(b"bad")]


def _values(stage: Stage, topic: str) -> list[bytes | None]:
    log = TopicLog(stage.connection, topic)
    try:
        return [record.value for record in log.read_to_end(Deadline.after(60))]
    finally:
        log.close()
