"""Talks to an OpenID provider: discovery, the exchange of the code, and the validation of ID tokens.

Authlib makes the requests of the code flow and validates claims; joserfc validates signatures; connections are ours.
Of what a provider sends, only error codes are logged.
"""

import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from django.core.exceptions import ImproperlyConfigured
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidClaimError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from ringfence.access.oidc.claims import LogoutToken, WrongToken, check_logout_token, claim_of
from ringfence.access.oidc.settings import NotProven, OidcSettings, Unavailable, may_be_called
from ringfence.connectors.sdk import egress
from ringfence.connectors.sdk.guarded_httpx import restrict_client

SECONDS: Final = 10.0
_MOST_BYTES: Final = 1024 * 1024


class _Answer:
    """The part of a response that Authlib's client uses."""

    def __init__(self, status: int, content: bytes) -> None:
        self.status_code, self._content = status, content

    def json(self) -> Any:
        return json.loads(self._content)

    def raise_for_status(self) -> None:
        if self.status_code >= 400:
            raise Unavailable(f"HTTP {self.status_code}")


class Connection:
    """A connection to the provider. Authlib uses it as its session."""

    def __init__(self, policy: egress.Policy) -> None:
        self._client = httpx.Client(timeout=SECONDS, verify=_create_context())
        restrict_client(self._client, policy)

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the JSON object at a URL. Raises Unavailable."""
        answer = self._send("GET", url, dict(headers or {}), b"")
        if answer.status_code != 200:
            raise Unavailable(f"{_place(url)} answered HTTP {answer.status_code}")
        try:
            document = answer.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise Unavailable(f"{_place(url)} answered with something other than a JSON object")
        return document

    def post(self, url: str, *, data: Mapping[str, str], headers: Mapping[str, str], auth: Any) -> _Answer:
        """Send a form. auth: Authlib's client authentication. Raises Unavailable."""
        _, all_headers, body = auth.prepare("POST", url, dict(headers), urlencode(data))
        return self._send("POST", url, all_headers, body.encode())

    def _send(self, method: str, url: str, headers: dict[str, str], body: bytes) -> _Answer:
        deadline, content = time.monotonic() + SECONDS, b""
        try:
            with self._client.stream(method, url, headers=headers, content=body or None) as answer:
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > _MOST_BYTES or time.monotonic() > deadline:
                        raise Unavailable(f"the answer of {_place(url)} is too long or too slow")
                return _Answer(answer.status_code, content)
        except egress.EgressDenied as refused:
            raise Unavailable(str(refused)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{_place(url)} cannot be reached ({type(error).__name__})") from None

    def close(self) -> None:
        self._client.close()


@lru_cache(maxsize=1)
def _create_context() -> ssl.SSLContext:
    """Return a context with the trusted certificate authorities. It is created once, since loading them is slow."""
    return httpx.create_ssl_context()


def _place(url: str) -> str:
    """Return a URL without its query, for messages."""
    return url.partition("?")[0]


SIGNED_BY: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Algorithms with a key that only the provider has: never `none`, never an HMAC with the client's secret."""
_KEPT_SECONDS: Final = 3600.0
_AGAIN_SECONDS: Final = 5.0
_LEEWAY_SECONDS: Final = 60
_AT_ONCE: Final = 4
_WAIT_SECONDS: Final = 1.0
_slots = threading.BoundedSemaphore(_AT_ONCE)
_logout_slots = threading.BoundedSemaphore(_AT_ONCE // 2)
"""Apart from those of logins, because anybody may send what looks like a logout token."""

log = logging.getLogger(__name__)


class Provider:
    """One provider for one web process. Its metadata and keys are cached for an hour."""

    def __init__(self, settings: OidcSettings, policy: egress.Policy) -> None:
        self.settings = settings
        self._policy = policy
        self._metadata: dict[str, Any] = {}
        self._metadata_until = 0.0
        self._away, self._away_until = "", 0.0
        self._keys: KeySet | None = None
        self._keys_until = 0.0

    def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Return the address at which a person logs in. Raises Unavailable."""
        metadata = self._discover()
        client = OAuth2Client(
            None,
            self.settings.client_id,
            scope=" ".join(self.settings.scopes),
            redirect_uri=self.settings.redirect_uri,
            code_challenge_method="S256",
        )
        url, _ = client.create_authorization_url(
            metadata["authorization_endpoint"], state=state, code_verifier=verifier, nonce=nonce
        )
        return str(url)

    def end_session_url(self, back: str) -> str:
        """Return the address that ends the session at the provider; "" if it has none. Raises Unavailable.

        It contains the client's id, not an `id_token_hint`, which would put a token into the address.
        """
        endpoint = self._discover().get("end_session_endpoint")
        if not may_be_called(endpoint):
            return ""
        query = urlencode({"client_id": self.settings.client_id, "post_logout_redirect_uri": back})
        return f"{endpoint}{'&' if '?' in str(endpoint) else '?'}{query}"

    def exchange(self, code: str, nonce: str, verifier: str, *, issuer: str = "") -> dict[str, Any]:
        """Return the claims of the person who logged in.

        code, issuer (`iss`, RFC 9207): parameters of the callback; the caller has checked its `state`. Raises
        Unavailable, NotProven, and ImproperlyConfigured if the secret cannot be read.
        """
        metadata = self._discover()
        checks_issuer = bool(issuer) or metadata.get("authorization_response_iss_parameter_supported") is True
        if checks_issuer and issuer != self.settings.issuer:
            raise NotProven("This answer is from another provider. Log in again")
        with self._connect() as connection:
            token = self._fetch_token(connection, metadata, code, verifier)
            claims = self._judge(connection, metadata, token, nonce)
            return self._with_userinfo(connection, metadata, token, claims)

    @contextmanager
    def _connect(self, slots: threading.BoundedSemaphore | None = None) -> Iterator[Connection]:
        slots = slots or _slots
        try:
            if not slots.acquire(timeout=_WAIT_SECONDS):
                raise Unavailable("it is slow, and too many people are logging in at once")
            try:
                connection = Connection(self._policy)
                try:
                    yield connection
                finally:
                    connection.close()
            finally:
                slots.release()
        except Unavailable as error:
            log.warning("Single sign-on with %s: %s", self.settings.host, error)
            raise Unavailable(
                f"The identity provider {self.settings.host} does not answer as expected: {error}. Try again; if it "
                "happens again, an administrator should check RINGFENCE_OIDC_ISSUER and the provider"
            ) from None

    def _discover(self, slots: threading.BoundedSemaphore | None = None) -> dict[str, Any]:
        """Return the provider's metadata. After a failure, it is not requested again for a few seconds.

        Raises Unavailable.
        """
        now = time.monotonic()
        if now < self._metadata_until:
            return self._metadata
        if now < self._away_until:
            raise Unavailable(self._away)
        try:
            with self._connect(slots) as connection:
                metadata = connection.get(get_well_known_url(self.settings.issuer, external=True))
                self._check_metadata(metadata)
        except Unavailable as error:
            self._away, self._away_until = str(error), time.monotonic() + _AGAIN_SECONDS
            raise
        self._metadata, self._metadata_until = metadata, now + _KEPT_SECONDS
        return metadata

    def _check_metadata(self, metadata: Mapping[str, Any]) -> None:
        if metadata.get("issuer") != self.settings.issuer:
            raise Unavailable(
                f"its configuration names the issuer {str(metadata.get('issuer'))[:200]!r}, which must be exactly "
                f"RINGFENCE_OIDC_ISSUER ({self.settings.issuer!r})"
            )
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not may_be_called(metadata.get(name)):
                raise Unavailable(f"its configuration has no https address as {name}")

    def _fetch_token(
        self, connection: Connection, metadata: Mapping[str, Any], code: str, verifier: str
    ) -> dict[str, Any]:
        secret = self.settings.client_secret()
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        posts = "client_secret_basic" not in methods and "client_secret_post" in methods
        client = OAuth2Client(
            connection,
            self.settings.client_id,
            secret or None,
            token_endpoint_auth_method="none" if not secret else "client_secret_post" if posts else None,
            redirect_uri=self.settings.redirect_uri,
        )
        try:
            token = client.fetch_token(
                metadata["token_endpoint"], grant_type="authorization_code", code=code, code_verifier=verifier
            )
        except AuthlibBaseError as error:
            reason = str(error.error)[:60]
            log.warning("Single sign-on with %s: the code was refused: %r", self.settings.host, reason)
            raise NotProven(
                f"The identity provider refused to complete the login ({reason}). Log in again; if it fails again, an "
                "administrator should compare RINGFENCE_OIDC_CLIENT_ID, its secret and the redirect URI "
                f"{self.settings.redirect_uri} with what is registered there"
            ) from None
        except ValueError:
            raise Unavailable("its token endpoint answered with something other than a token") from None
        return dict(token)

    def _judge(
        self, connection: Connection, metadata: Mapping[str, Any], token: Mapping[str, Any], nonce: str
    ) -> dict[str, Any]:
        """Return the ID token's claims, after checking signature, issuer, audience, times, nonce and at_hash.

        Raises NotProven and Unavailable.
        """
        text = token.get("id_token")
        if not isinstance(text, str):
            raise NotProven("The provider sent no ID token. An administrator should add `openid` to the scopes")
        try:
            jws = self._decode(connection, metadata, text)
            options: dict[str, Any] = {
                "iss": {"essential": True, "value": self.settings.issuer},
                "aud": {"essential": True, "value": self.settings.client_id},
            }
            params = {
                "nonce": nonce,
                "client_id": self.settings.client_id,
                "access_token": token.get("access_token"),
            }
            claims = CodeIDToken(jws.claims, jws.header, options, params)
            claims.validate(leeway=_LEEWAY_SECONDS)
            subject = claims["sub"]
            if not isinstance(subject, str) or not 0 < len(subject) <= 255:
                raise InvalidClaimError("sub")
        except (JoseError, ValueError, KeyError, TypeError) as error:
            kind = getattr(error, "claim", "") or getattr(error, "error", "") or type(error).__name__
            log.warning("Single sign-on with %s: the ID token was refused: %s", self.settings.host, kind)
            raise NotProven(
                f"The provider's ID token is not valid ({kind}). Log in again; if it fails again, an administrator "
                "should compare this machine's clock and RINGFENCE_OIDC_CLIENT_ID with the provider's"
            ) from None
        return dict(claims)

    def judge_logout(self, text: str) -> LogoutToken:
        """Validate a back-channel logout token, which anybody may send. Raises Unavailable, NotProven."""
        metadata = self._discover(_logout_slots)
        try:
            with self._connect(_logout_slots) as connection:
                token = self._decode(connection, metadata, text, patient=True)
            mine = {"issuer": self.settings.issuer, "client_id": self.settings.client_id}
            return check_logout_token(token.header, token.claims, now=time.time(), **mine)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise NotProven(str(error) if isinstance(error, WrongToken) else type(error).__name__) from None

    def _decode(
        self, connection: Connection, metadata: Mapping[str, Any], text: str, *, patient: bool = False
    ) -> jwt.Token:
        """Decode a token signed by the provider; raises JoseError for any other. patient: limits how often an unknown
        key makes it fetch the provider's keys again.
        """
        offered = metadata.get("id_token_signing_alg_values_supported")
        algorithms = [name for name in SIGNED_BY if not isinstance(offered, list) or name in offered]
        registry = JWSRegistry(algorithms=algorithms, strict_check_header=False)
        try:
            return jwt.decode(text, self._key_set(connection, metadata), registry=registry)
        except (InvalidKeyIdError, BadSignatureError):  # the provider may have changed its keys
            if patient and time.monotonic() < self._keys_until - _KEPT_SECONDS + _AGAIN_SECONDS:
                raise
            return jwt.decode(text, self._key_set(connection, metadata, again=True), registry=registry)

    def _key_set(self, connection: Connection, metadata: Mapping[str, Any], *, again: bool = False) -> KeySet:
        keys = self._keys
        if again or keys is None or time.monotonic() >= self._keys_until:
            jwks: Any = connection.get(metadata["jwks_uri"])
            self._keys = keys = KeySet.import_key_set(jwks)
            self._keys_until = time.monotonic() + _KEPT_SECONDS
        return keys

    def _with_userinfo(
        self, connection: Connection, metadata: Mapping[str, Any], token: Mapping[str, Any], claims: dict[str, Any]
    ) -> dict[str, Any]:
        """Add the userinfo's claims if a claim that is needed here is missing. The ID token's claims take precedence.

        Raises NotProven and Unavailable.
        """
        claim_names = (self.settings.name_claim, self.settings.groups_claim)
        endpoint, access = metadata.get("userinfo_endpoint"), token.get("access_token")
        if all(claim_of(claims, name) is not None for name in claim_names) or not may_be_called(endpoint):
            return claims
        if not isinstance(access, str):
            return claims
        userinfo = connection.get(str(endpoint), {"Authorization": f"Bearer {access}"})
        if userinfo.get("sub") != claims["sub"]:
            raise NotProven("The provider's userinfo is for another person. Log in again")
        return {**userinfo, **claims}


@lru_cache(maxsize=8)
def provider(settings: OidcSettings, egress_allow: str) -> Provider:
    """Return the provider for these settings, one for each process. Raises ImproperlyConfigured."""
    try:
        return Provider(settings, egress.Policy(egress_allow))
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from error
