"""`/health/live` and `/health/ready`: of this process, apart from the cluster's health."""

import pytest
from django.db import OperationalError
from django.test import Client
from redis.exceptions import ConnectionError as RedisAway

from ringfence import redis_clock
from ringfence.api import root
from ringfence.heartbeats import cluster_view
from ringfence.heartbeats.cluster_health import ProjectionAge, WorkerHeartbeat, assess
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
    found = [(one["name"], one["ok"]) for one in answer.json()["dependencies"]]
    assert found == [("database", True), ("redis", False), ("projection", True)]


def test_a_projection_that_stands_still_is_told_with_its_cause(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command then waits for rows in vain, so the cluster is not healthy, but this process can still answer."""
    beat = WorkerHeartbeat("w", "1", 1.0, 99.0, 5, led_age_s=1.0, projection_error="database is away")
    monkeypatch.setattr(root, "_cache", root._Cache())
    monkeypatch.setattr(root, "_ready_cache", root._ReadyCache())
    monkeypatch.setattr(cluster_view.look, "vitals", lambda: assess([beat], ProjectionAge(41.5, 7)))
    answer = client.get("/health")
    assert answer.status_code == 503
    assert "for 41 s. It waits: database is away." in answer.json()["message"]
    ready = client.get("/health/ready")
    assert ready.status_code == 200
    found = ready.json()["dependencies"][-1]
    assert (found["name"], found["ok"], found["required"], found["behind_s"]) == ("projection", False, False, 41)
    monkeypatch.setattr(root, "_cache", root._Cache())
    monkeypatch.setattr(cluster_view.look, "vitals", lambda: assess([beat], ProjectionAge(1.5, 7)))
    assert client.get("/health").status_code == 200


def test_verbose_tells_the_clusters_health_which_decides_nothing(client: Client, leader: FakeLeader) -> None:
    found = client.get("/health/ready?verbose=true").json()["dependencies"]
    assert found[-1] == {"name": "cluster", "ok": True, "required": False}
