"""FilesSource on real servers of Google Cloud Storage and Azure Blob Storage."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.files.connector import FilesSourceConnector
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.support.azurite import ACCOUNT, KEY, Azurite
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
from tests.support.file_runs import write as write_format
from tests.support.gcs import GcsServer, token_server

pytestmark = pytest.mark.usefixtures("loopback_egress")

Store = GcsServer | Azurite


@pytest.fixture(scope="module")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    server = GcsServer(tmp_path_factory.mktemp("gcs")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    server = Azurite(tmp_path_factory.mktemp("azure")).start()
    yield server
    server.stop()


@pytest.fixture(params=["gcs", pytest.param("azure", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Empty."""
    server: Store = request.getfixturevalue(request.param)
    yield server
    server.clear()


def config_in(store: Store, **more: str) -> dict[str, str]:
    return {**config_of(Path("/nowhere"), **more), **store.settings()}


def validate(config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    return FilesSourceConnector().validate(config)


def test_objects_are_read_once_and_moved(store: Store) -> None:
    for number, part in enumerate(PARTS):
        store.write(f"deep er/{number}%.txt", part)
    store.write(".hidden.txt", b"no\n")
    store.write_at("inside.txt", b"of another prefix\n")
    config = config_in(store, batch_size="4")
    assert validate(config) == {}
    committed, expected = read_in_attempts(config)

    store.write("deep er/1%.txt", b"changed\n")
    check_changed(committed, config, "deep er/1%.txt", expected)

    done = store.settings()["url"].removesuffix("in") + "done"
    moving = {**config, "after": "move", "move.to": done}
    assert validate(moving) == {}
    committed.run(moving)
    moved = [f"done/deep er/{number}%.txt" for number in range(3)]
    assert store.names() == [*moved, "in/.hidden.txt", "inside.txt"]
    assert committed.offsets == {}
    again = Committed().run({**config, "url": done}).values
    assert again == [*expected[:5], "changed", *expected[10:]]


@pytest.mark.thorough
def test_no_mixture_of_two_contents(store: Store) -> None:
    """Larger than what is read at a time, and overwritten in the middle: not one line of the new content."""
    check_no_mixture(config_in(store), partial(store.write, "large.txt"), b"old\n" * 5_000_000, b"new\n" * 5_000_000)


def test_an_object_that_took_the_name_stays(store: Store) -> None:
    store.write("a.txt", b"a\n")
    committed = Committed()
    task = started(config_in(store, after="delete"))
    committed.take(task.poll())
    store.write("a.txt", b"another\n")
    task.commit()
    task.stop()
    assert store.files() == ["in/a.txt"]
    assert committed.run(config_in(store, after="delete")).values == ["a", "another"]
    assert store.files() == []


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_formats_that_seek_and_decompress(store: Store, format: str, tmp_path: Path) -> None:
    write_format(tmp_path, format, 10)
    (path,) = tmp_path.iterdir()
    store.write(path.name, path.read_bytes())
    assert len(Committed().run({**config_in(store), "format": format}).values) == 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GcsServer, Azurite])
def test_it_goes_on_after_the_server_was_killed(kind: type[Store], tmp_path: Path) -> None:
    server = kind(tmp_path / "server").start()
    try:
        server.write("a.txt", b"".join(b"%d\n" % line for line in range(2_000_000)))
        check_it_goes_on(server, config_in(server, batch_size="300000"), 2_000_000)
    finally:
        server.stop()


def test_what_cannot_work_is_said_of_google(gcs: GcsServer) -> None:
    config = config_in(gcs)
    assert "There is no bucket" in validate({**config, "url": "gs://nobodys-bucket"})["url"][0]
    assert "must have the form gs://" in validate({**config, "url": "gs://UPPER/case"})["url"][0]
    assert "must have the form https" in validate({**config, "gcs.endpoint.url": "ftp://x"})["url"][0]
    for key in ("no json", '{"type": "external_account", "audience": "x"}', '{"type": "service_account"}', "[]"):
        assert "not the JSON of a service account's key" in validate({**config, "gcs.credentials": key})["url"][0]
    worker_limits.declare(WorkerLimits(egress="public"))
    assert "not allowed" in validate(config)["url"][0]


def test_a_service_account_signs_in(gcs: GcsServer) -> None:
    with token_server() as issuer:
        config = {**config_in(gcs), "gcs.credentials": issuer.key_file()}
        assert validate(config) == {}
        assert issuer.granted == ["https://www.googleapis.com/auth/devstorage.read_write"]
        issuer.refuses = True
        refused = validate(config)["url"][0]
        assert "the service account's key is refused" in refused
        assert "PRIVATE KEY" not in refused
        # The address of the token server is in the key: it is reached as the worker allows, too.
        worker_limits.declare(WorkerLimits(egress=f"127.0.0.1:{gcs.port}"))
        assert "not allowed" in validate(config)["url"][0]


@pytest.mark.slow
def test_what_cannot_work_is_said_of_azure(azure: Azurite) -> None:
    config = config_in(azure)
    gone = config["url"].replace("lake", "nobodys")
    assert "There is no container nobodys" in validate({**config, "url": gone})["url"][0]
    assert "must have the form abfs://" in validate({**config, "url": "abfs://lake/in"})["url"][0]
    for key in (KEY[:-8] + "AAAAAAA=", "not base64!"):
        refused = validate({**config, "azure.account.key": key})["url"][0]
        assert "azure.account.key" in refused
        assert key not in refused
    assert "not both" in validate({**config, "azure.sas.token": azure.sas("rl")})["azure.sas.token"][0]
    elsewhere = config["url"].replace(ACCOUNT, "another")
    assert "within the account reader only" in validate({**config, "after": "move", "move.to": elsewhere})["move.to"][0]
    worker_limits.declare(WorkerLimits(egress="public"))
    assert "not allowed" in validate(config)["url"][0]


@pytest.mark.slow
def test_a_shared_access_signature_signs_in(azure: Azurite) -> None:
    azure.write("a.txt", b"a\n")
    config = config_in(azure)
    del config["azure.account.key"]
    reading = {**config, "azure.sas.token": azure.sas("rl")}
    assert Committed().run(reading).values == ["a"]
    with pytest.raises(ConnectorError, match="denies access") as error:
        Committed().run({**reading, "after": "delete"})
    assert "sig=" not in str(error.value)
    assert Committed().run({**config, "azure.sas.token": azure.sas("rwdl"), "after": "delete"}).values == ["a"]
    assert azure.files() == []
    assert "denies access" in validate({**config, "azure.sas.token": azure.sas("w")})["url"][0]
