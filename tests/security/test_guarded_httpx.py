"""A canary for the private parts of httpx that `connectors.guarded_httpx` uses: real clients, a real server."""

import httpx
import pytest

from ringfence.connectors.sdk.egress import EgressDenied, Policy
from ringfence.connectors.sdk.guarded_httpx import restrict_client
from tests.support.recording_server import RecordingServer


@pytest.mark.parametrize("proxy", [None, "http://127.0.0.1:{port}"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_httpx_still_has_what_is_used_of_its_private_parts(
    recording_server: RecordingServer, proxy: str | None, host: str
) -> None:
    through = None if proxy is None else proxy.format(port=recording_server.port)
    with httpx.Client(proxy=through) as client:
        restrict_client(client, Policy("public,private"))
        with pytest.raises(EgressDenied, match=r"egress\.allow"):
            client.get(f"http://{host}:{recording_server.port}/")
    assert recording_server.asked == []
    with httpx.Client(proxy=through) as client:
        restrict_client(client, Policy("loopback"))
        assert client.get(f"http://{host}:{recording_server.port}/").status_code == 200
    assert len(recording_server.asked) == 1


def test_an_address_that_may_not_be_connected_to_is_not_reached_by_tls(recording_server: RecordingServer) -> None:
    with httpx.Client() as client:
        restrict_client(client, Policy("public,private"))
        with pytest.raises(EgressDenied, match=r"egress\.allow"):
            client.get(f"https://localhost:{recording_server.port}/")


def test_no_redirect_is_followed(recording_server: RecordingServer) -> None:
    with httpx.Client(follow_redirects=True) as client:
        restrict_client(client, Policy("loopback"))
        assert client.get(f"http://localhost:{recording_server.port}/elsewhere").status_code == 307
    assert recording_server.asked == ["/elsewhere"]
