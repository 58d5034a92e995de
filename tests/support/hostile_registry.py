"""A Schema Registry of an attacker: each schema id is one way to bring down who reads with it."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

RECURSIVE, NULLS, UNPACKED, DRIP, SOUND = 1, 2, 3, 4, 5
"""The ids. RECURSIVE: a record in itself, as deep as the value says. NULLS: an array of items without bytes. UNPACKED:
300 MB in 300 kB. DRIP: a byte every half second. SOUND: a record with a string."""

_SCHEMAS: Final[dict[int, object]] = {
    RECURSIVE: {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]},
    NULLS: {"type": "array", "items": "null"},
    SOUND: {"type": "record", "name": "S", "fields": [{"name": "s", "type": "string"}]},
}
_MIB: Final = 1024 * 1024


def _zigzag(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def value(schema: int) -> bytes:
    """The record's value for this id."""
    data = {
        RECURSIVE: b"\x02" * 20_000 + b"\x00",
        NULLS: _zigzag(2_000_000_000) + b"\x00",
        SOUND: b"\x08safe",
    }.get(schema, b"\x00")
    return b"\x00" + schema.to_bytes(4, "big") + data


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        number = int(self.path.partition("/ids/")[2].partition("?")[0] or 0)
        answers: dict[int, Callable[[], None]] = {UNPACKED: self._unpack, DRIP: self._drip}
        answers.get(number, lambda: self._send(json.dumps({"schema": json.dumps(_SCHEMAS[number])}).encode()))()

    def _send(self, body: bytes, **headers: str) -> None:
        self.send_response(200)
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def _unpack(self) -> None:
        body = gzip.compress(b'{"schema": "' + b" " * (300 * _MIB) + b'"}', 1)
        self._send(body, Content_Encoding="gzip")

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "100000")
        self.end_headers()
        while True:
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.5)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """The reader was killed, or has given up."""


@contextmanager
def hostile_registry() -> Iterator[str]:
    """The address of one that runs within the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
