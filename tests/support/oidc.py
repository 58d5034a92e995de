"""An OpenID provider in this process, for what a real one never does: wrong nonces, foreign keys, lies about itself."""

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey

from tests.support.loopback_api import Answer, LoopbackApi, Request

ALGORITHM = "ES256"


@dataclass
class FakeProvider:
    """`user`: the claims of whoever logs in. `token_claims`: what the ID token says in place of what is right."""

    client_id: str = "ringfence"
    secret: str = "the client's secret"
    user: dict[str, Any] = field(default_factory=lambda: {"sub": "1"})
    userinfo: dict[str, Any] = field(default_factory=dict)
    token_claims: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    key: Any = field(default_factory=lambda: ECKey.generate_key("P-256", auto_kid=True))
    published: list[Any] = field(default_factory=list)
    signs_with: Any = None
    algorithm: str = ALGORITHM
    asked: list[str] = field(default_factory=list)
    sent: list[dict[str, str]] = field(default_factory=list)
    issuer: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def log_in(self, address: str, code: str = "code-1") -> dict[str, str]:
        """What the browser comes back with, after the person logged in at that address."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["response_type"] == "code"
        assert asked["client_id"] == self.client_id
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def answer(self, path: str, form: dict[str, str], headers: Any) -> tuple[int, Any]:
        self.asked.append(path)
        match path:
            case "/.well-known/openid-configuration":
                return 200, self._metadata()
            case "/jwks":
                keys = [self.key, *self.published]
                return 200, KeySet(keys).as_dict(private=False)
            case "/token":
                return self._token(form, headers)
            case "/me":
                return 200, {"sub": self.user["sub"], **self.userinfo}
        return 404, {}

    def _metadata(self) -> dict[str, Any]:
        endpoints = {"authorization_endpoint": "auth", "token_endpoint": "token", "jwks_uri": "jwks"}
        endpoints |= {"userinfo_endpoint": "me", "end_session_endpoint": "end"}
        found: dict[str, Any] = {name: f"{self.issuer}/{path}" for name, path in endpoints.items()}
        return {"issuer": self.issuer, **found, **self.metadata}

    def _token(self, form: dict[str, str], headers: Any) -> tuple[int, Any]:
        self.sent.append(form)
        basic = base64.b64encode(f"{self.client_id}:{self.secret}".encode()).decode()
        if headers.get("Authorization") != f"Basic {basic}":
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or form["grant_type"] != "authorization_code" or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": self.client_id, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims |= self.user | self.token_claims
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"access_token": "access-1", "token_type": "Bearer", "id_token": self._sign(claims)}

    def logout_token(self, typ: str | None = "logout+jwt", **changes: Any) -> str:
        """What it posts when somebody logs out; `changes`: claims in place of what is right, None for without."""
        event: dict[str, Any] = {"http://schemas.openid.net/event/backchannel-logout": {}}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": self.client_id, "iat": now, "exp": now + 120, "jti": uuid4().hex}
        claims |= {"events": event, "sub": self.user["sub"]} | changes
        return self._sign({name: value for name, value in claims.items() if value is not None}, typ)

    def _sign(self, claims: dict[str, Any], typ: str | None = None) -> str:
        key = self.signs_with or self.key
        header = (
            {"alg": self.algorithm}
            | ({"typ": typ} if typ else {})
            | ({} if isinstance(key, OctKey) else {"kid": key.kid})
        )
        return jwt.encode(header, claims, key, algorithms=[self.algorithm])


class _Server(LoopbackApi):
    protocol = "HTTP/1.0"

    def __init__(self, provider: FakeProvider) -> None:
        self._provider = provider
        super().__init__()

    def respond(self, request: Request) -> Answer:
        form = dict(parse_qsl(request.body.decode()))
        status, found = self._provider.answer(urlsplit(request.path).path, form, request.headers)
        return Answer(json.dumps(found).encode(), status=status)


@contextmanager
def run(provider: FakeProvider) -> Iterator[FakeProvider]:
    """It answers at its issuer, on a free port."""
    with _Server(provider) as server:
        provider.issuer = server.url.rstrip("/")
        yield provider
