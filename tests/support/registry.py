"""A Schema Registry for tests: the REST API that clients of it use, over HTTP or HTTPS, with users and passwords.

For what a real one (tests/support/apicurio.py) cannot be made to do: ask for tokens, be broken, count. It keeps
subjects and ids as that does (one id for one text, however often it is registered), and reads each schema with the
parser of its form before it takes it. It does not compare versions.
"""

import base64
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import fastavro
from jsonschema import Draft7Validator

from tests.support.loopback_api import Answer, LoopbackApi, Request

Json = Any


class Refused(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Registry(LoopbackApi):
    """Runs on threads of its own until its block ends."""

    protocol = "HTTP/1.0"

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
        super().__init__(certificate=certificate)
        self.url = f"{'http' if certificate is None else 'https'}://localhost:{self.port}"

    def respond(self, request: Request) -> Answer:
        data: Json = None
        if request.method == "POST":
            text = request.body.decode()
            data = json.loads(text) if "json" in request.headers["Content-Type"] else text
        status, answer = 200, {}
        try:
            answer = self.answer(request.method, request.path, data, request.headers["Authorization"])
        except Refused as refused:
            status, answer = refused.status, {"error_code": refused.code, "message": str(refused)}
        return Answer(json.dumps(answer).encode(), "application/vnd.schemaregistry.v1+json", status)

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
