"""Tokens for logins with SASL OAUTHBEARER: by client credentials, from a token endpoint (RFC 6749, 4.4; KIP-768).

All clients of a process share one source for each login: librdkafka's by its callback, the others by `token`. So the
endpoint is asked once for each lifetime of a token, at an address that `egress.allow` contains. Nothing here shows a
secret, a token, or what the endpoint answers.
"""

import base64
import json
import re
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.sdk import egress, worker_limits

MECHANISM: Final = "OAUTHBEARER"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.secret"  # noqa: S105 - a setting's name
SCOPE: Final = "sasl.oauthbearer.scope"
EXTENSIONS: Final = "sasl.oauthbearer.extensions"
URL_ENCODE: Final = "sasl.oauthbearer.header.urlencode"
METHOD: Final = "sasl.oauthbearer.method"
CA_FILE: Final = "https.ca.location"
CA_TEXT: Final = "https.ca.pem"
_OURS: Final = ("sasl.oauthbearer.", "https.")

_SECONDS: Final = 5.0
_PAUSE_S: Final = 1.0
"""After a failure: clients that connect again and again do not ask again and again."""
_RENEW_AT: Final = 0.8
"""Of a token's lifetime."""
_LAST: Final = 0.1
_LAST_S: Final = 3.0
"""So much of its lifetime, at most so many seconds, a token is not used any more: it has to be valid at the broker."""
_OLD_S: Final = 5.0
_UNTOLD_S: Final = 300.0
"""The lifetime of a token of which nobody tells it."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,100000}=*")
_EXTENSION: Final = re.compile(r"(?!auth=)[A-Za-z]+=[\x21-\x7e \t]+")
_PASSING: Final = frozenset({408, 425, 429})
_OAUTH_ERRORS: Final = frozenset(
    {
        "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
        "invalid_scope",
    }
)  # fmt: skip


class NoToken(RetriableError):
    """There is no token. The message is for users. refused: whether the same request will fail again."""

    def __init__(self, text: str, *, refused: bool) -> None:
        super().__init__(text)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Token:
    """Times are in seconds since 1970."""

    value: str = field(repr=False)
    asked_at: float
    expires_at: float

    @property
    def renew_at(self) -> float:
        return self.asked_at + (self.expires_at - self.asked_at) * _RENEW_AT

    @property
    def usable_until(self) -> float:
        return self.expires_at - min(_LAST_S, (self.expires_at - self.asked_at) * _LAST)


@dataclass(frozen=True, slots=True)
class _Login:
    """What identifies a login, and what a request needs."""

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str
    extensions: tuple[tuple[str, str], ...]
    url_encode: bool
    ca_file: str
    ca_text: str
    policy: str


class TokenSource:
    """Keeps the newest token of one login. Thread-safe."""

    def __init__(self, login: _Login) -> None:
        self._login = login
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._failure: tuple[float, NoToken] | None = None
        self.extensions: Mapping[str, str] = dict(login.extensions)

    def token(self) -> Token:
        """Return a valid token, and ask for another one in time. Waits for at most some seconds. Raises `NoToken`."""
        with self._lock:
            now = time.time()
            if self._token is not None and now < self._token.renew_at:
                return self._token
            try:
                self._token = self._renew(now)
            except NoToken:
                if self._token is None or time.time() >= self._token.usable_until:
                    raise
            return self._token

    def forget(self) -> bool:
        """Ask for another token the next time: a broker has refused this one. Return whether that may help: the token
        was not new.
        """
        with self._lock:
            token, self._token = self._token, None
            return token is not None and time.time() > token.asked_at + _OLD_S

    def answer_librdkafka(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """Return what librdkafka's `oauth_cb` returns. Raises `NoToken`, and librdkafka asks again after a while."""
        token = self.token()
        return token.value, token.expires_at, self._login.client_id, dict(self.extensions)

    def _renew(self, now: float) -> Token:
        if self._failure is not None and now < self._failure[0] + _PAUSE_S:
            raise self._failure[1]
        try:
            token = self._ask()
        except NoToken as error:
            self._failure = time.time(), error
            raise
        self._failure = None
        return token

    def _ask(self) -> Token:
        import httpx  # a task without such a login does not need its memory

        from ringfence.connectors.sdk.guarded_httpx import restrict_client

        login, asked_at = self._login, time.time()
        form = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
        try:
            with httpx.Client(timeout=_SECONDS, trust_env=False, verify=self._tls()) as client:
                restrict_client(client, egress.Policy(login.policy), _SECONDS)
                answer = client.post(login.endpoint, content=urlencode(form), headers=self._headers())
        except egress.EgressDenied as refused:
            raise NoToken(f"{self._about}: {refused}", refused=True) from None
        except (httpx.HTTPError, httpx.InvalidURL, ConnectorError) as error:
            raise NoToken(f"{self._about}: it does not answer ({type(error).__name__})", refused=False) from None
        except (OSError, ValueError) as error:
            raise NoToken(f"{self._about}: {CA_FILE} or {CA_TEXT} cannot be used", refused=True) from error
        return self._read(answer, asked_at)

    def _tls(self) -> ssl.SSLContext | bool:
        login = self._login
        if not login.endpoint.startswith("https:") or not (login.ca_file or login.ca_text):
            return login.endpoint.startswith("https:")
        return ssl.create_default_context(cafile=login.ca_file or None, cadata=login.ca_text or None)

    def _headers(self) -> dict[str, str]:
        pair = self._login.client_id, self._login.client_secret
        user, password = map(quote_plus, pair) if self._login.url_encode else pair
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {
            "Authorization": f"Basic {encoded}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    @property
    def _about(self) -> str:
        return f"The token endpoint {self._login.endpoint.partition('?')[0]} gives no token"

    def _read(self, answer: Any, asked_at: float) -> Token:
        document = _object_of(answer.content)
        status = answer.status_code
        if status != 200:
            oauth_error = document.get("error")
            reason = f": {oauth_error}" if oauth_error in _OAUTH_ERRORS else ""
            remedy = f". Check {CLIENT_ID}, {CLIENT_SECRET} and {SCOPE}"
            refused = 300 <= status < 500 and status not in _PASSING
            text = f"{self._about}, but HTTP {status}{reason}{remedy if refused else ''}"
            raise NoToken(text, refused=refused)
        value = document.get("access_token")
        if not isinstance(value, str) or not _TOKEN.fullmatch(value):
            raise NoToken(f"{self._about}: its answer has no usable access_token", refused=True)
        ends = [asked_at + each for each in (_seconds(document.get("expires_in")),) if each is not None]
        claim = _seconds(_claims_of(value).get("exp"))
        expires_at = min([*ends, *([] if claim is None else [claim])], default=asked_at + _UNTOLD_S)
        if expires_at <= time.time():
            text = f"{self._about} that is still valid. Check the clocks of both machines"
            raise NoToken(text, refused=False)
        return Token(value, asked_at, expires_at)


def _object_of(content: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _claims_of(token: str) -> Mapping[str, object]:
    """Return the claims of a JSON web token, unchecked: the broker checks them. Nothing for another kind of token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return _object_of(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _seconds(value: object) -> float | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)  # some endpoints quote it
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        return None
    return float(value)


def parse_endpoint(url: str) -> str:
    """Check the URL of a token endpoint. Raises ValueError, which does not quote it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
        raise ValueError("an address that begins with https:// or http:// is expected")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"the address contains a user, which pages would show: use {CLIENT_ID} and {CLIENT_SECRET}")
    return url


def parse_extensions(text: str) -> dict[str, str]:
    """Parse SASL extensions, `name=value,…` (RFC 7628, 3.1). Raises ValueError."""
    pairs = [each.strip() for each in text.split(",") if each.strip()]
    if not all(map(_EXTENSION.fullmatch, pairs)):
        raise ValueError("name=value is expected, separated by commas; names consist of letters, and auth is none")
    return {name: value for name, _, value in (each.partition("=") for each in pairs)}


def uses_tokens(settings: Mapping[str, object]) -> bool:
    """Return whether a client with these settings, under librdkafka's names, logs in with a token."""
    mechanism = str(settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "")
    return mechanism.upper() == MECHANISM and str(settings.get("security.protocol", "")).upper().startswith("SASL")


def source_of(settings: Mapping[str, object]) -> TokenSource:
    """Return the source for a login. Raises ValueError, naming what is missing."""
    texts = {name: str(value) for name, value in settings.items() if name.startswith(_OURS)}
    missing = [name for name in (ENDPOINT, CLIENT_ID, CLIENT_SECRET) if not texts.get(name)]
    if missing:
        raise ValueError(f"a login with {MECHANISM} needs {', '.join(missing)}, too")
    return _source_of(
        _Login(
            parse_endpoint(texts[ENDPOINT]),
            texts[CLIENT_ID],
            texts[CLIENT_SECRET],
            texts.get(SCOPE, ""),
            tuple(parse_extensions(texts.get(EXTENSIONS, "")).items()),
            texts.get(URL_ENCODE, "false") == "true",
            texts.get(CA_FILE, ""),
            texts.get(CA_TEXT, ""),
            worker_limits.current().egress,
        )
    )


def check_endpoint(settings: Mapping[str, object]) -> None:
    """Raise ValueError if the token endpoint in these settings may not be asked. Asks nobody."""
    if ENDPOINT not in settings:
        return
    parts = urlsplit(str(settings[ENDPOINT]))
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        egress.check_servers(egress.Policy(worker_limits.current().egress), f"{parts.hostname}:{port}")
    except egress.EgressDenied as refused:
        raise ValueError(f"{ENDPOINT}: {refused}") from None


@lru_cache(maxsize=256)
def _source_of(login: _Login) -> TokenSource:
    return TokenSource(login)


def for_librdkafka(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a client of librdkafka, with a callback in place of what a token is asked with: its own
    way to endpoints knows no `egress.allow`.

    The first token is there then: without one, creating the client would wait, and say nothing of the reason. Raises
    `NoToken`, and ValueError.
    """
    others = {name: value for name, value in settings.items() if not name.startswith(_OURS)}
    if not uses_tokens(settings):
        return others
    source = source_of(settings)
    source.token()
    return {**others, "oauth_cb": source.answer_librdkafka}
