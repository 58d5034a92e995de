"""An empty database, a stand-in leader and a client for every test of the API."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, override_settings

from ringfence.access.oidc.settings import OidcSettings
from tests.support import own_api
from tests.support.accounts import CONFIG, JSON, MASTER
from tests.support.database import empty_tables, migrated
from tests.support.leader import FakeLeader, leader
from tests.support.oidc import FakeProvider, run
from tests.support.single_sign_on import GROUPS, PUBLIC

__all__ = ["empty_tables", "leader", "migrated"]


@pytest.fixture
def client() -> Client:
    return Client(headers={"host": "localhost"}, raise_request_exception=False)


@pytest.fixture
def token_required(settings_of: Any) -> None:
    """Others can reach the web process, and its token is a secret."""
    settings_of(NO_LOGIN="", ACCESS_TOKEN="s3same-open", ALLOWED_HOSTS=["*"])


@pytest.fixture
def settings_of() -> Iterator[Any]:
    entered = []

    def enter(**changes: Any) -> None:
        override = override_settings(**changes)
        override.enable()
        entered.append(override)

    yield enter
    for override in reversed(entered):
        override.disable()


@pytest.fixture
def login_required() -> Iterator[None]:
    """Others can reach the web process, and its token is "master"."""
    with override_settings(NO_LOGIN="", ACCESS_TOKEN="master", ALLOWED_HOSTS=["*"]):
        yield


@pytest.fixture
def two_connectors_of_teams(leader: FakeLeader, client: Client) -> FakeLeader:
    for name in ("team-a", "other"):
        body = {"name": name, "config": {**CONFIG, "pin": "123456"}}
        assert client.post("/connectors", body, content_type=JSON, headers=MASTER).status_code == 201
        leader.start(name)
    return leader


@pytest.fixture
def two_connectors(leader: FakeLeader, client: Client) -> FakeLeader:
    from ringfence.projection.models import ClusterInfo, Worker

    for name in ("team-a", "other"):
        assert (
            client.post("/connectors", {"name": name, "config": own_api.CONFIG}, content_type=JSON).status_code == 201
        )
        leader.start(name, tasks=2)
    Worker.objects.create(worker="w1", incarnation="i", mode="enabled", slots=4, version="1", since_ms=5)
    ClusterInfo.objects.create(id=1, leader="w1", incarnation="i", group_generation=3)
    return leader


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    monkeypatch.setenv("CONNECT_EGRESS_ALLOW", "loopback")
    secret, groups = tmp_path / "secret", tmp_path / "groups.yaml"
    groups.write_text(GROUPS)
    with run(FakeProvider(user={"sub": "s-1", "preferred_username": "ann", "groups": ["team-a"]})) as provider:
        secret.write_text(provider.secret + "\n")
        oidc = OidcSettings(
            provider.issuer,
            provider.client_id,
            f"{PUBLIC}/ui/login/sso/callback",
            groups_file=groups,
            secret_file=secret,
        )
        with override_settings(NO_LOGIN="", ACCESS_TOKEN="", ALLOWED_HOSTS=["localhost"], OIDC=oidc):
            yield provider
