"""A Schema Registry for tests: the REST API that clients of it use, over HTTP or HTTPS, with users and passwords.

For what a real one (tests/support/apicurio.py) cannot be made to do: ask for tokens, be broken, count. It keeps
subjects and ids as that does (one id for one text, however often it is registered), and reads each schema with the
parser of its form before it takes it. It does not compare versions.
"""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import fastavro
from jsonschema import Draft7Validator

Json = Any


class Refused(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Registry:
    """Runs on a thread of its own while the block lasts."""

    def __init__(self, user: str | None = None, certificate: Path | None = None, token: str | None = None) -> None:
        """user: name:password, which every request must show. certificate: a PEM file with key, for HTTPS.

        token: a bearer token to show instead; whoever posts to /token gets it.
        """
        self.ids: dict[tuple[str, str], int] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[tuple[str, str]] = []
        self.serialized: dict[str, bytes] = {}
        """Descriptors of .proto files by their text: a real registry compiles them, this one must be told."""
        self.broken = False
        """While true it answers 503."""
        self._expected = None if token is None else f"Bearer {token}"
        if user is not None:
            self._expected = "Basic " + base64.b64encode(user.encode()).decode()
        self._token = token
        self._lock = threading.Lock()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(json.loads(data) if "json" in self.headers["Content-Type"] else data.decode())

            def _answer(self, body: Json) -> None:
                try:
                    status, answer = 200, registry.answer(self.command, self.path, body, self.headers["Authorization"])
                except Refused as refused:
                    status, answer = refused.status, {"error_code": refused.code, "message": str(refused)}
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://localhost:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def schema(self, number: int) -> Json:
        """What is registered under that id."""
        text, kind = next(known for known, each in self.ids.items() if each == number)
        return {"schema": text, **({} if kind == "AVRO" else {"schemaType": kind})}

    def answer(self, method: str, path: str, body: Json, authorization: str | None) -> Json:
        with self._lock:
            parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
            self.requests.append((method, "/".join(parts)))
            if path == "/token":
                return {"access_token": self._token, "token_type": "Bearer", "expires_in": 3600}
            if self._expected is not None and authorization != self._expected:
                raise Refused(401, 40101, "Unauthorized")
            if self.broken:
                raise Refused(503, 50301, "starting")
            match method, parts:
                case "POST", ["subjects", subject, "versions"]:
                    return {"id": self._register(subject, body)}
                case "GET", ["schemas", "ids", number]:
                    found = self.schema(int(number))
                    if "format=serialized" in path:
                        found["schema"] = base64.b64encode(self.serialized[found["schema"]]).decode()
                    return found
                case _:
                    raise Refused(404, 40401, f"not found: {method} {path}")

    def _register(self, subject: str, body: Json) -> int:
        text, kind = body["schema"], body.get("schemaType", "AVRO")
        _check(text, kind)
        number = self.ids.setdefault((text, kind), len(self.ids) + 1)
        known = self.subjects.setdefault(subject, [])
        if number not in known:
            known.append(number)
        return number


def _check(text: str, kind: str) -> None:
    try:
        if kind == "AVRO":
            fastavro.parse_schema(json.loads(text))
        elif kind == "JSON":
            Draft7Validator.check_schema(json.loads(text))
        elif not text.startswith('syntax = "proto3";'):
            raise ValueError("no proto3 file")
    except Exception as error:
        raise Refused(422, 42201, f"Invalid schema: {error}") from error
