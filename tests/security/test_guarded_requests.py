"""A canary for the private parts of urllib3 that `connectors.guarded_requests` uses: real sessions, a real server."""

import pytest
from requests import ConnectionError as NoConnection
from requests import Session

from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.egress import EgressDenied
from ringfence.connectors.sdk.guarded_requests import restrict_session
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.support.recording_server import RecordingServer


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_urllib3_still_has_what_is_used_of_its_private_parts(
    recording_server: RecordingServer, monkeypatch: pytest.MonkeyPatch, session: Session, scheme: str, host: str
) -> None:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="public,private")])
    restrict_session(session)
    with session, pytest.raises(EgressDenied, match=r"egress\.allow"):
        session.get(f"{scheme}://{host}:{recording_server.port}/", timeout=10)
    assert recording_server.asked == []


def test_allowed_addresses_are_connected_to(
    recording_server: RecordingServer, monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="loopback")])
    restrict_session(session)
    with session:
        assert session.get(f"http://localhost:{recording_server.port}/", timeout=10).status_code == 200
        assert session.get(f"http://localhost:{recording_server.port}/", timeout=10).status_code == 200
    assert recording_server.asked == ["/", "/"]


def test_an_unknown_name_is_a_connection_error(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    monkeypatch.setattr(worker_limits, "_current", [WorkerLimits(egress="loopback")])
    restrict_session(session)
    with session, pytest.raises(NoConnection, match="cannot be resolved"):
        session.get("http://nowhere.invalid/", timeout=10)
