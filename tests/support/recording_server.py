"""An HTTP server on this machine that notes what it is asked."""

from collections.abc import Iterator

import pytest

from tests.support.loopback_api import Answer, LoopbackApi, Request


class RecordingServer(LoopbackApi):
    """Answers 200, and 307 to paths with `elsewhere`; `asked` are the paths, or URLs of a proxy's requests."""

    protocol = "HTTP/1.0"

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__()

    def respond(self, request: Request) -> Answer:
        self.asked.append(request.path)
        return Answer(b"", "", 307, (("Location", "/"),)) if "elsewhere" in request.path else Answer(b"", "")


@pytest.fixture
def recording_server() -> Iterator[RecordingServer]:
    with RecordingServer() as server:
        yield server
