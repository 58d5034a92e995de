"""FilesSource on a real S3 server."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.support.file_runs import PARTS, check_changed, check_no_mixture, config_of, read_in_attempts
from tests.support.s3 import S3Server

# The server takes a while, and each attempt signs in.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("loopback_egress")]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3")).start()
    yield server
    server.stop()


def write(s3: S3Server, name: str, data: bytes) -> None:
    s3.client().pipe_file(f"{s3.bucket}/{name}", data)


def test_objects_are_read_once_deleted_moved_and_never_in_parts(s3: S3Server) -> None:
    for number, part in enumerate(PARTS):
        write(s3, f"in/deep/{number}.txt", part)
    write(s3, "inside.txt", b"of another prefix\n")
    config = {**config_of_s3(s3), "batch.size": "4"}
    assert FilesSourceConnector().validate(config) == {}
    committed, expected = read_in_attempts(config)

    write(s3, "in/deep/1.txt", b"changed\n")
    check_changed(committed, config, "deep/1.txt", expected)

    moving = {**config, "after": "move", "move.to": f"s3://{s3.bucket}/done"}
    committed.run(moving)
    names = sorted(name.removeprefix(s3.bucket) for name in s3.client().find(s3.bucket))
    assert names == ["/done/deep/0.txt", "/done/deep/1.txt", "/done/deep/2.txt", "/inside.txt"]
    assert committed.offsets == {}

    # Larger than what is read at a time, overwritten in the middle: not one line of the new content.
    check_no_mixture(config, partial(write, s3, "in/large.txt"), b"old\n" * 3_000_000, b"new\n" * 3_000_000)
    s3.client().rm(f"{s3.bucket}/in/large.txt")


def test_what_cannot_work_is_said(s3: S3Server) -> None:
    validate = FilesSourceConnector().validate
    config = config_of_s3(s3)
    assert "There is no bucket" in validate({**config, "url": "s3://nobodys-bucket"})["url"][0]
    wrong = validate({**config, "s3.secret.key": "wrong-secret"})
    assert "denies access with these keys" in wrong["url"][0]
    assert "wrong-secret" not in str(wrong)
    worker_limits.declare(WorkerLimits(egress="public"))
    assert "not allowed" in validate(config)["url"][0]


def config_of_s3(s3: S3Server) -> dict[str, str]:
    return {**config_of(Path("/nowhere")), **s3.settings()}
