"""`/health/live` and `/health/ready`: of this process, apart from the cluster's health."""

import pytest
from django.db import OperationalError
from django.test import Client
from redis.exceptions import ConnectionError as RedisAway

from ringfence import redis_clock
from ringfence.api import root
from ringfence.projection.models import ClusterInfo
from tests.support.leader import FakeLeader


@pytest.fixture(autouse=True)
def answering_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_clock, "now", lambda: 0.0)


def test_alive_whatever_is_away(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError

    monkeypatch.setattr(ClusterInfo.objects, "exists", away)
    assert client.get("/health/live").status_code == 200


def test_not_ready_without_the_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/health/ready").json()["status"] == "ready"

    def away(*_: object) -> None:
        raise OperationalError("password=hunter22")

    root._ready_cache.until = 0.0
    monkeypatch.setattr(ClusterInfo.objects, "exists", away)
    answer = client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json()["dependencies"][0] == {"name": "database", "ok": False, "required": True}
    assert b"hunter22" not in answer.content


def test_ready_without_redis_since_pages_can_be_read(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> float:
        raise RedisAway

    monkeypatch.setattr(redis_clock, "now", away)
    answer = client.get("/health/ready")
    assert answer.status_code == 200
    assert [(one["name"], one["ok"]) for one in answer.json()["dependencies"]] == [("database", True), ("redis", False)]


def test_verbose_tells_the_clusters_health_which_decides_nothing(client: Client, leader: FakeLeader) -> None:
    found = client.get("/health/ready?verbose=true").json()["dependencies"]
    assert found[-1] == {"name": "cluster", "ok": True, "required": False}
