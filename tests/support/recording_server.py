"""An HTTP server on this machine that notes what it is asked."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class RecordingServer:
    """Answers 200, and 307 to paths with `elsewhere`; `asked` are the paths, or URLs of a proxy's requests."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                moved = "elsewhere" in self.path
                self.send_response(307 if moved else 200)
                if moved:
                    self.send_header("Location", "/")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def recording_server() -> Iterator[RecordingServer]:
    server = RecordingServer()
    yield server
    server.stop()
