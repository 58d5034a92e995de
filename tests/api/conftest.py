"""An empty database, a stand-in leader and a client for every test of the API."""

from collections.abc import Iterator

import pytest
from django.test import Client

from tests.support import database
from tests.support.leader import FakeLeader


@pytest.fixture(scope="session", autouse=True)
def _tables() -> None:
    database.migrate()


@pytest.fixture(autouse=True)
def _empty_tables(_tables: None) -> Iterator[None]:
    database.empty()
    yield
    database.empty()


@pytest.fixture(autouse=True)
def leader(monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    from ringfence import dispatch
    from ringfence.api import root
    from ringfence.http import masking

    fake = FakeLeader()
    monkeypatch.setattr(dispatch, "command", fake.command)
    monkeypatch.setattr(dispatch, "ask", fake.ask)
    masking._asked_in_vain.clear()
    root._cache.until = 0.0
    root._cache.was_healthy = False
    root._ready_cache.until = 0.0
    return fake


@pytest.fixture
def client() -> Client:
    return Client(headers={"host": "localhost"}, raise_request_exception=False)
