"""A token endpoint (RFC 6749, 4.4) with the keys that a broker checks its tokens with."""

import base64
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.support.loopback_api import Answer, LoopbackApi, Request

CLIENT, SECRET, SCOPE = "ringfence-client", "s3cret/with+signs", "kafka.write"


class TokenEndpoint(LoopbackApi):
    """lifetime_s: of the tokens that it gives. answer: in place of a token, as status and body, if set. away: between
    these monotonic times it answers nothing useful.
    """

    protocol = "HTTP/1.0"

    def __init__(self) -> None:
        self.lifetime_s = 3600.0
        self.answer: tuple[int, bytes] | None = None
        self.away = 0.0, 0.0
        self.given: list[str] = []
        """The tokens, in order."""
        self._key = RSAKey.generate_key(2048, {"kid": "one", "alg": "RS256", "use": "sig"})
        super().__init__()
        self.keys_url = f"{self.url}keys"
        self.url = f"{self.url}token?tenant=a"

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

    def respond(self, request: Request) -> Answer:
        if request.method == "GET":
            return Answer(json.dumps({"keys": [self._key.as_dict(private=False)]}).encode())
        status, body = self._grant(request.authorization, request.form)
        return Answer(body, status=status)

    def _grant(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
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
    with TokenEndpoint() as endpoint:
        yield endpoint
