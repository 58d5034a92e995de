"""FilesSource on a real SFTP server."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.support.file_runs import (
    PARTS,
    Committed,
    check_changed,
    check_it_goes_on,
    check_no_mixture,
    config_of,
    read_in_attempts,
    started,
)
from tests.support.sftp import PASSWORD, SftpServer

pytestmark = pytest.mark.usefixtures("loopback_egress")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpServer]:
    made = SftpServer(tmp_path_factory.mktemp("sftp")).start()
    yield made
    made.stop()


@pytest.fixture
def folder(server: SftpServer, request: pytest.FixtureRequest) -> Path:
    path: Path = server.folder / request.node.name
    path.mkdir()
    return path


def config_over_sftp(server: SftpServer, folder: Path, **more: str) -> dict[str, str]:
    url = f"sftp://127.0.0.1:{server.port}/{folder.relative_to(server.folder)}"
    return {**config_of(Path("/nowhere"), **more), **server.settings(), "url": url}


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_files_are_read_once_in_attempts_that_end_anywhere(server: SftpServer, folder: Path) -> None:
    for number, part in enumerate(PARTS):
        write(folder / "deep" / f"{number}.txt", part)
    write(folder / ".hidden.txt", b"no\n")
    (folder / "link.txt").symlink_to(folder / "deep" / "0.txt")
    config = config_over_sftp(server, folder, batch_size="4")
    committed, expected = read_in_attempts(config)

    write(folder / "deep" / "1.txt", b"changed\n")
    check_changed(committed, config, "deep/1.txt", expected)


@pytest.mark.parametrize("after", ["delete", "move"])
def test_what_was_read_is_cleared_away(server: SftpServer, folder: Path, after: str) -> None:
    write(folder / "in" / "deep" / "a.txt", b"a\n")
    write(folder / "done" / "deep" / "a.txt", b"was there before\n")
    config = config_over_sftp(server, folder / "in", after=after)
    target = f"sftp://127.0.0.1:{server.port}/{folder.name}/done"
    config |= {"move.to": target} if after == "move" else {}
    assert FilesSourceConnector().validate({**config, "settle.ms": "1000"}) == {}
    committed = Committed().run(config)
    assert (committed.values, committed.offsets) == (["a"], {})
    assert not (folder / "in" / "deep" / "a.txt").exists()
    left = {str(path.relative_to(folder)) for path in folder.rglob("*.txt*")}
    assert left == {"done/deep/a.txt"} | ({"done/deep/a.txt.1"} if after == "move" else set())


def test_a_file_that_took_the_name_stays(server: SftpServer, folder: Path) -> None:
    write(folder / "a.txt", b"a\n")
    committed = Committed()
    task = started(config_over_sftp(server, folder, after="delete"))
    committed.take(task.poll())
    write(folder / "new", b"another\n")
    os.replace(folder / "new", folder / "a.txt")
    task.commit()
    task.stop()
    assert (folder / "a.txt").read_bytes() == b"another\n"
    assert committed.run(config_over_sftp(server, folder, after="delete")).values == ["a", "another"]


def test_no_mixture_of_two_contents(server: SftpServer, folder: Path) -> None:
    """Larger than what is read at a time, and overwritten in the middle: not one line of the new content."""
    config = config_over_sftp(server, folder)
    check_no_mixture(config, partial(write, folder / "large.txt"), b"old\n" * 4_000_000, b"newer\n" * 4_000_000)


def test_it_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    server = SftpServer(tmp_path / "server").start()
    try:
        write(server.folder / "in" / "a.txt", b"".join(b"%d\n" % line for line in range(1000)))
        check_it_goes_on(server, {**config_of(Path("/nowhere")), **server.settings(), "batch.size": "300"}, 1000)
    finally:
        server.stop()


def test_keys_sign_in_too(server: SftpServer, folder: Path) -> None:
    write(folder / "a.txt", b"a\n")
    config = config_over_sftp(server, folder)
    del config["sftp.password"]
    assert Committed().run({**config, "sftp.private.key": server.private_key}).values == ["a"]
    locked = {**config, "sftp.private.key": server.locked_key, "settle.ms": "1000"}
    assert "cannot be read" in FilesSourceConnector().validate(locked)["url"][0]
    locked |= {"sftp.private.key.passphrase": "open sesame"}
    assert FilesSourceConnector().validate(locked) == {}
    assert Committed().run({**locked, "settle.ms": "0"}).values == ["a"]


def test_what_cannot_work_is_said(server: SftpServer, folder: Path) -> None:
    def problem(name: str = "url", **more: str) -> str:
        config = {**config_over_sftp(server, folder), "settle.ms": "1000"}
        changed = {**config, **{key.replace("_", "."): value for key, value in more.items()}}
        return FilesSourceConnector().validate({key: value for key, value in changed.items() if value})[name][0]

    address = f"sftp://127.0.0.1:{server.port}"
    assert "There is no folder /gone" in problem(url=f"{address}/gone")
    assert "refuses the user or the credentials" in problem(sftp_password="wrong-secret")
    assert "wrong-secret" not in problem(sftp_password="wrong-secret")
    assert "Set sftp.user" in problem(sftp_user="")
    assert "not in the address" in problem(url=f"sftp://reader:{PASSWORD}@127.0.0.1:{server.port}/in")
    assert "must have the form sftp://" in problem(url="sftp:///in")
    assert "Must be at least 1000" in problem("settle.ms", settle_ms="0")
    assert "only within 127.0.0.1" in problem("move.to", after="move", move_to="sftp://localhost/done")
    worker_limits.declare(WorkerLimits(egress="public"))
    assert "not allowed" in problem()


def test_a_server_with_another_key_gets_no_password(server: SftpServer, folder: Path) -> None:
    config = {**config_over_sftp(server, folder), "settle.ms": "1000"}
    missing = FilesSourceConnector().validate({**config, "sftp.host.key": ""})["url"][0]
    assert server.fingerprint in missing, "to be compared and copied"
    other = FilesSourceConnector().validate({**config, "sftp.host.key": "SHA256:" + "A" * 43})["url"][0]
    assert "another server is impersonating it" in other
