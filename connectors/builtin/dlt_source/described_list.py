"""One list of a REST API, as the settings `rest.…` describe it: what it is for dlt's rest_api. Pure."""

import json
import re
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ringfence.connectors.api import ConnectorError, ParsedConfig, Password
from ringfence.connectors.builtin.dlt_source import settings as names

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
