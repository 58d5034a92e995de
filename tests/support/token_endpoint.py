"""A token endpoint (RFC 6749, 4.4) with the keys that a broker checks its tokens with."""

import base64
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET, SCOPE = "ringfence-client", "s3cret/with+signs", "kafka.write"


class TokenEndpoint:
    """lifetime_s: of the tokens that it gives. answer: in place of a token, as status and body, if set. away: between
    these monotonic times it answers nothing useful.
    """

    def __init__(self, port: int) -> None:
        self.lifetime_s = 3600.0
        self.answer: tuple[int, bytes] | None = None
        self.away = 0.0, 0.0
        self.given: list[str] = []
        """The tokens, in order."""
        self._key = RSAKey.generate_key(2048, {"kid": "one", "alg": "RS256", "use": "sig"})
        self.url = f"http://127.0.0.1:{port}/token?tenant=a"
        self.keys_url = f"http://127.0.0.1:{port}/keys"

    @property
    def settings(self) -> dict[str, str]:
        """A login with it, under librdkafka's names."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.scope": SCOPE,
        }

    def keys(self) -> bytes:
        return json.dumps({"keys": [self._key.as_dict(private=False)]}).encode()

    def grant(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
        if self.away[0] <= time.monotonic() < self.away[1]:
            return 503, b""
        if self.answer is not None:
            return self.answer
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {expected}" or form != {"grant_type": ["client_credentials"], "scope": [SCOPE]}:
            return 401, json.dumps({"error": "invalid_client", "error_description": authorization}).encode()
        now = time.time()
        claims = {"sub": CLIENT, "scope": SCOPE, "iat": int(now), "exp": now + self.lifetime_s, "iss": "us",
                  "aud": "kafka", "jti": secrets.token_hex(8)}  # fmt: skip
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self._key)
        self.given.append(token)
        return 200, json.dumps(
            {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_s)}
        ).encode()


@contextmanager
def token_endpoint() -> Iterator[TokenEndpoint]:
    """A running endpoint on this machine."""
    holder: list[TokenEndpoint] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, holder[0].keys())

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._send(*holder[0].grant(self.headers.get("Authorization", ""), form))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    holder.append(TokenEndpoint(server.server_address[1]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield holder[0]
    finally:
        server.shutdown()
        server.server_close()
