"""A TCP proxy that passes so many bytes of a server to each connection, and holds the rest back.

For tests that must meet a client in the middle of its work: a fast machine cannot be through before the test looks.
"""

import contextlib
import socket
import threading
from collections.abc import Iterator

_CHUNK = 1 << 16


class LimitedProxy:
    """Listens on `port` of this machine."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self.limit: int | None = None
        """Bytes of the server that each new connection gets. None: all."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, name="limited proxy", daemon=True).start()

    def close(self) -> None:
        """Take no more connections. Those that are open end with their clients."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(("127.0.0.1", self._upstream), timeout=30)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for work, limits in ((self._ask, ()), (self._answer, (self.limit,))):
                arguments = client, server, *limits
                threading.Thread(target=work, args=arguments, name="limited proxy", daemon=True).start()

    @staticmethod
    def _ask(client: socket.socket, server: socket.socket) -> None:
        """Pass everything to the server. The client's end breaks both connections, held back or not."""
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                server.sendall(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    @staticmethod
    def _answer(client: socket.socket, server: socket.socket, limit: int | None) -> None:
        with contextlib.suppress(OSError):
            while limit is None or limit > 0:
                data = server.recv(_CHUNK if limit is None else min(_CHUNK, limit))
                if not data:
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
                if limit is not None:
                    limit -= len(data)


@contextlib.contextmanager
def limited_proxy(upstream: int) -> Iterator[LimitedProxy]:
    """In front of a port of this machine."""
    proxy = LimitedProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
