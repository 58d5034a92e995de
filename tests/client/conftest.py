"""The whole server in this process, and a home of its own for the client."""

from functools import partial
from pathlib import Path

import httpx
import pytest

from ringfence.client import arguments
from ringfence.client.rest import Rest
from tests.api.conftest import _empty_tables, _tables, leader  # noqa: F401 - fixtures


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
