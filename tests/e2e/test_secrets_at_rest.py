"""A connector's password, through all that can be done with it: in no database file and nowhere in Redis."""

import contextlib
import stat
from collections.abc import Callable
from typing import Any

import redis

from ringfence.local.guarded_process import wait_until
from tests.e2e.flow import Flow
from tests.e2e.up import Up
from tests.support.waiting import eventually

PASSWORD, NEWER = "S3cr3t-at-rest-1", "S3cr3t-at-rest-2"


def everything(store: Any) -> dict[str, bytes]:
    """Each key of Redis with what it holds; lists and hashes joined."""
    found = {}
    for key in store.keys("*"):
        with contextlib.suppress(redis.ResponseError):
            kind = store.type(key)
            value = (
                b"\n".join(store.lrange(key, 0, -1))
                if kind == b"list"
                else b"\n".join(store.hvals(key))
                if kind == b"hash"
                else store.get(key)
                if kind == b"string"
                else b""
            )
            found[key.decode()] = value or b""
    return found


def secrets_in(raw: bytes) -> list[str]:
    return [secret for secret in (PASSWORD, NEWER) if secret.encode() in raw]


def test_a_password_is_in_no_file_of_the_database_and_nowhere_in_redis(platform: Up, flow: Callable[..., Flow]) -> None:
    connector, rest = flow("secretive", throughput=50), platform.rest
    path, store = f"/connectors/{connector.name}/config", redis.Redis.from_url(platform.redis_url)
    seen: list[str] = []

    def look() -> None:
        for key, value in everything(store).items():
            seen.extend(f"{secret} in {key}" for secret in secrets_in(value))

    for password in (PASSWORD, NEWER):
        config = connector.config(**{"db.password": password})
        rest.expect(200, "PUT", "/connector-plugins/VerifiableSource/config/validate", config)
        look()
        rest.settled(200, "PUT", path, config)
        look()
        preview = {"config": {**config, "name": f"{connector.name}-preview"}}
        assert rest.started("POST", "/api/v1/preview", preview).status_code == 200
        look()
    assert rest.expect(200, "GET", path)["db.password"] == "[hidden]"
    versions = rest.expect(200, "GET", f"/api/v1/connectors/{connector.name}/versions")
    assert len(versions["results"]) >= 3
    connector.await_progress()
    rest.settled(204, "DELETE", f"/connectors/{connector.name}")
    look()

    def kept() -> list[str]:
        return [key for key in everything(store) if key.startswith("celery-task-meta-")]

    wait_until(lambda: not kept(), 5)
    look()
    assert seen == []
    files = sorted(platform.data.glob("ringfence.sqlite3*"))
    assert any(connector.name.encode() in file.read_bytes() for file in files), "the look sees something"
    for file in files:
        assert secrets_in(file.read_bytes()) == [], file.name
    for log in (platform.data / "logs").iterdir():
        assert secrets_in(log.read_bytes()) == [], log.name


def test_what_up_writes_is_its_users_alone(platform: Up) -> None:
    open_to_others = []
    for path in [platform.data, *platform.data.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):  # gone since it was listed: the platform is at work
            mode = path.lstat().st_mode
            if path != platform.output and not stat.S_ISLNK(mode) and not stat.S_ISSOCK(mode) and mode & 0o077:
                open_to_others.append(path)
    assert open_to_others == []
    eventually(lambda: platform.rest.call("GET", "/health").status_code == 200, 30)
