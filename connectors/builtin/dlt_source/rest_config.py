"""What describes a REST API for dlt's rest_api: the user's JSON, parsed, without what editors of connectors must not
make dlt do; or one list, by the settings `rest.…`.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ringfence.connectors.api import ConnectorError, ParsedConfig, Password
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


_NAME: Final = re.compile(r"[^A-Za-z0-9_]+")
_STYLES: Final = {names.NO_PAGES: "single_page", names.BY_HEADER: "header_link"}


def build_rest_config(config: ParsedConfig) -> dict[str, Any]:
    """Return the object that `rest.config` would have. Raises `ConnectorError` for settings that are missing."""
    url = _text(config, names.URL)
    parts = urlsplit(url)
    params: dict[str, Any] = {name: _escape(value) for name, value in parse_qsl(parts.query, keep_blank_values=True)}
    endpoint: dict[str, Any] = {
        "path": _escape(parts.path.lstrip("/")),
        "params": params,
        "data_selector": quote_path(_text(config, names.RECORDS)) or "$",
        "paginator": _build_paginator(config),
    }
    if cursor := _text(config, names.CURSOR):
        endpoint["incremental"] = {"cursor_path": quote_path(cursor)}
        if start := _text(config, names.CURSOR_START):
            endpoint["incremental"]["initial_value"] = parse_start(start)
        if param := _text(config, names.CURSOR_PARAM):
            if not start:
                raise ConnectorError(f"{names.CURSOR_START}: the API expects a first value for {param}. Set one.")
            params[param] = "{incremental.start_value}"
    resource: dict[str, Any] = {"name": name_list(url), "endpoint": endpoint}
    if key := _text(config, names.KEY):
        resource["primary_key"] = key
    return {"client": {"base_url": f"{parts.scheme}://{parts.netloc}/"}, "resources": [resource]}


def build_auth(config: ParsedConfig) -> dict[str, str] | None:
    """Return the object that `rest.auth` would have; None without a login. Raises `ConnectorError`."""
    login = config.string(names.LOGIN)
    if login == names.NO_LOGIN:
        return None
    secret = config.get(names.LOGIN_SECRET)
    if not isinstance(secret, Password) or not secret.value:
        raise ConnectorError(f"{names.LOGIN_SECRET}: {names.LOGIN}={login} needs it.")
    if login == names.BEARER:
        return {"type": names.BEARER, "token": secret.value}
    name = _text(config, names.LOGIN_NAME)
    if not name:
        raise ConnectorError(f"{names.LOGIN_NAME}: {names.LOGIN}={login} needs it.")
    if login == names.API_KEY:
        return {"type": names.API_KEY, "name": name, "api_key": secret.value, "location": "header"}
    return {"type": names.HTTP_BASIC, "username": name, "password": secret.value}


def name_list(url: str) -> str:
    """Return the name of the resource: the end of the path."""
    last = urlsplit(url).path.rstrip("/").rpartition("/")[2]
    return _NAME.sub("_", last.partition(".")[0]).strip("_") or "records"


def quote_path(path: str) -> str:
    """Return a path for JSONPath, in which names may have any characters."""
    return ".".join(part if part.isidentifier() else f"'{part}'" for part in path.split(".")) if path else ""


def parse_start(text: str) -> str | int:
    """Return the first value of a cursor: a number if it is one."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


def as_json(config: ParsedConfig) -> str:
    return json.dumps(build_rest_config(config))


def _build_paginator(config: ParsedConfig) -> dict[str, Any]:
    style = config.string(names.PAGES)
    match style:
        case names.BY_NUMBER:
            first, param = config.integer(names.PAGE_FIRST), _require(config, names.PAGE_PARAM)
            return {"type": "page_number", "base_page": first, "page_param": param, "total_path": None}
        case names.BY_OFFSET:
            size, param = config.integer(names.PAGE_SIZE), _require(config, names.PAGE_PARAM)
            limit = config.string(names.PAGE_SIZE_PARAM)
            return {"type": "offset", "limit": size, "offset_param": param, "limit_param": limit, "total_path": None}
        case names.BY_CURSOR:
            path, param = _require(config, names.NEXT), _require(config, names.PAGE_PARAM)
            return {"type": "cursor", "cursor_path": quote_path(path), "cursor_param": param}
        case names.BY_LINK:
            return {"type": "json_link", "next_url_path": quote_path(_require(config, names.NEXT))}
        case _:
            return {"type": _STYLES[style]}


def _require(config: ParsedConfig, name: str) -> str:
    text = _text(config, name)
    if not text:
        raise ConnectorError(f"{name}: {names.PAGES}={config.string(names.PAGES)} needs it.")
    return text


def _text(config: ParsedConfig, name: str) -> str:
    return str(config.get(name) or "").strip()


def _escape(text: str) -> str:
    """Return the text as dlt takes it literally: it replaces what is in braces."""
    return text.replace("{", "{{").replace("}", "}}")
