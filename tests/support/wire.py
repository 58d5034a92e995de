"""A TCP relay that can go silent: connections stay, and nothing comes through until it is mended, as in a partition."""

import contextlib
import socket
import threading
from collections.abc import Iterator

_CHUNK = 65536


class Wire:
    """Listens on a port of its own, `port`, and passes every byte to `upstream` and back."""

    def __init__(self, upstream: int) -> None:
        self._upstream = ("127.0.0.1", upstream)
        self._open = threading.Event()
        self._open.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, name="wire", daemon=True).start()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """What is sent within the block arrives after it, as TCP would deliver it."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def close(self) -> None:
        self._open.set()
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
                self._open.wait()
                server = socket.create_connection(self._upstream)
            except OSError:
                return  # closed
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=ends, name="wire", daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._open.wait()
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
