"""A listener that nobody may reach."""

import contextlib
import socket
import threading


class Trap:
    """A listener on every address of this machine, which notes who comes."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.port: int = self._socket.getsockname()[1]
        self.callers: list[object] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, address = self._socket.accept()
                self.callers.append(address)
                connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
