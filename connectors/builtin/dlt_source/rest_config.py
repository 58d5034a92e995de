"""Parses the JSON that describes a REST API, and refuses what editors of connectors must not make dlt do."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.dlt_source import settings as names
from ringfence.connectors.sdk import egress, worker_limits
from ringfence.connectors.sdk.secret_names import secret_by_name
from ringfence.connectors.sdk.values.nesting import DEEPEST, is_deep

_FORBIDDEN: Final = {
    "auth": f"Move it to {names.AUTH}, which is never shown.",
    "session": "Remove it: the connector creates the session.",
    "convert": "Remove it: JSON cannot contain functions.",
    "processing_steps": "Remove it, and use the connector's transforms.",
    "parallelized": "Remove it: pages are read one after another.",
}
_SECRET_HEADER: Final = re.compile(r"auth|cookie|token|secret|key|password", re.IGNORECASE)
_SENT: Final = ("params", "json", "data")
_PLACEHOLDER: Final = re.compile(
    r"incremental\.(start_value|initial_value|last_value|end_value)|resources\.[A-Za-z]\w*(\.[A-Za-z0-9]\w*)+"
)
_URL: Final = re.compile(r"(https?://[^\s?'\"]*+)(?:(\?)[^\s'\"]*+)?")
_SIGN_INS: Final = ("bearer", "api_key", "http_basic", "oauth2_client_credentials")


def parse_object(name: str, text: str | None) -> dict[str, Any]:
    """Parse a JSON object; {} for None. Raises `ConnectorError`, which does not quote the text."""
    if not text:
        return {}
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "somewhere"
        raise ConnectorError(f"{name}: not valid JSON ({where}).") from None
    if is_deep(content):
        raise ConnectorError(f"{name}: it is nested more than {DEEPEST} levels deep.")
    if not isinstance(content, dict):
        raise ConnectorError(f"{name}: must be a JSON object, in braces.")
    return content


def parse_rest_config(text: str | None) -> dict[str, Any]:
    """Parse the configuration, and check what can be checked without dlt. Raises `ConnectorError`."""
    config = parse_object(names.REST, text)
    client = config.get("client")
    if not isinstance(client, dict) or not isinstance(client.get("base_url"), str) or not config.get("resources"):
        raise ConnectorError(
            f"{names.REST}: set {names.URL}, the address of a list, or here at least "
            '{"client": {"base_url": "https://…"}, "resources": ["…"]}.'
        )
    _check(config)
    _check_address(client["base_url"])
    return config


def parse_auth(text: str | None) -> dict[str, Any] | None:
    """Parse the credentials; None if there are none. Raises `ConnectorError`."""
    auth = parse_object(names.AUTH, text)
    if not auth:
        return None
    if auth.get("type") not in _SIGN_INS or "session" in auth:
        raise ConnectorError(f'{names.AUTH}: set "type", one of {", ".join(_SIGN_INS)}, and the fields of that type.')
    if auth["type"] == "oauth2_client_credentials":
        _check_address(str(auth.get("access_token_url", "")))
    return auth


def find_secrets(value: object) -> list[str]:
    """Return the strings in a JSON value that must not be shown, longest first."""
    return sorted({text for text in _strings(value) if len(text) > 3}, key=len, reverse=True)


def redact(config: ParsedConfig, error: BaseException) -> str:
    """Return the error's message, without credentials and without the query strings of URLs."""
    return redact_text(config, f"{type(error).__name__}: {error}")


def redact_text(config: ParsedConfig, text: str) -> str:
    """Return the text without credentials and without the query strings of URLs."""
    text = _URL.sub(lambda url: url[1] + ("?…" if url[2] else ""), text)
    secrets = [secret_text(config, names.LOGIN_SECRET) or ""]
    for name in (names.AUTH, names.SECRETS):
        secrets += find_secrets(parse_object(name, secret_text(config, name)))
    for secret in filter(None, secrets):
        text = text.replace(secret, "[hidden]")
    return text


def secret_text(config: ParsedConfig, name: str) -> str | None:
    """Return a secret setting in clear text; None if it is not set."""
    value: Any = config.get(name)
    return None if value is None else str(getattr(value, "value", value))


def _check(value: object, key: str = "", part: str = "") -> None:
    """part: the part of a request in which the value is, "" for none."""
    part = part or (key if key in _SENT else "")
    if isinstance(value, dict):
        for name, inner in value.items():
            if key not in _SENT and name in _FORBIDDEN:
                raise ConnectorError(f"{names.REST}: {name} is not allowed. {_FORBIDDEN[name]}")
            if part and not isinstance(inner, dict | list) and secret_by_name(str(name)):
                raise ConnectorError(
                    f"{names.REST}: {name} in {part} would be visible to all who may view the connector. Use "
                    f'{names.AUTH} with "type": "api_key", "name" and "location": "query", or sign in otherwise.'
                )
            if key == "headers" and _SECRET_HEADER.search(str(name)):
                raise ConnectorError(
                    f"{names.REST}: the header {name} would be visible to all who may view the connector. Use "
                    f'{names.AUTH} with "type": "api_key" and "name" for it.'
                )
            _check_text(str(name))
            _check(inner, name, part)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, key, part)
    elif isinstance(value, str):
        _check_text(value)


def _check_text(text: str) -> None:
    """Refuse unknown placeholders: dlt formats strings with its own objects, whose attributes give access to the
    process.
    """
    plain = text.replace("{{", "").replace("}}", "")
    for placeholder in re.findall(r"\{([^{}]*)\}?", plain):
        if not _PLACEHOLDER.fullmatch(placeholder):
            raise ConnectorError(
                f"{names.REST}: the placeholder {{{placeholder[:60]}}} is not allowed. Allowed are "
                "{incremental.start_value}, {incremental.initial_value}, "
                "{incremental.last_value}, {incremental.end_value} and {resources.NAME.FIELD}; "
                "double a literal brace."
            )


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ConnectorError("Addresses must begin with https:// or http:// and contain a host.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConnectorError("Addresses must begin with https:// or http:// and contain a host.")
    if parts.username or parts.password:
        raise ConnectorError(
            f"{names.REST}: the address contains a password, which would be visible. Use {names.AUTH}."
        )
    try:
        egress.Policy(worker_limits.current().egress).addresses(parts.hostname, port)
    except egress.EgressDenied as error:
        raise ConnectorError(f"{error}.") from error
    except (OSError, UnicodeError) as error:
        raise ConnectorError(f"The host {parts.hostname} cannot be resolved: check the address.") from error


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("type", "location", "name", "access_token_url"):
                yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str):
        yield value
