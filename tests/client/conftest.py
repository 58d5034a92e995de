"""The whole server in this process, and a home of its own for the client."""

from functools import partial
from pathlib import Path

import httpx
import pytest

from ringfence import cli
from ringfence.client import arguments
from ringfence.client.rest import Rest
from tests.support.client_runs import CONFIG, Captured, write
from tests.support.database import empty_tables, migrated
from tests.support.leader import FakeLeader, leader

__all__ = ["empty_tables", "leader", "migrated"]


def transport() -> httpx.WSGITransport:
    """To the server in this process."""
    from django.core.wsgi import get_wsgi_application

    return httpx.WSGITransport(app=get_wsgi_application())


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(arguments, "Rest", partial(Rest, transport=transport()))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("RINGFENCE_URL", "RINGFENCE_TOKEN", "VISUAL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def two(leader: FakeLeader, tmp_path: Path, capsys: Captured) -> FakeLeader:
    file = write(
        tmp_path / "two.json", [{"name": name, "config": {**CONFIG, "pin": "123456"}} for name in ("a", "b c")]
    )
    assert cli.main(["connectors", "create", "-f", file]) == 0
    leader.start("a", tasks=2)
    leader.start("b c")
    capsys.readouterr()
    return leader
