"""Looks at the answer of a REST API, and proposes how its list is read: records, key, pages and cursor.

What the answer only suggests is tried: a style of pages is proposed if a second request, made in that style, returns
other records. All requests are GETs to the address that the user gave, within some seconds.
"""

import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import requests

from ringfence.connectors.api import ConfigException, ConnectorError, Examination, ParsedConfig
from ringfence.connectors.builtin.dlt_source import settings as names
from ringfence.connectors.builtin.dlt_source.rest_client import JsonResponse, ResponseError
from ringfence.connectors.builtin.dlt_source.rest_config import (
    as_json,
    build_auth,
    name_list,
    parse_auth,
    parse_rest_config,
    redact_text,
    secret_text,
)
from ringfence.connectors.builtin.dlt_source.settings import CONFIG_DEF
from ringfence.connectors.sdk.diagnosis import Cause, describe, diagnose
from ringfence.connectors.sdk.egress import EgressDenied
from ringfence.connectors.sdk.guarded_requests import restrict_session

_SECONDS: Final = 15.0
_REQUEST_SECONDS: Final = 5.0
_DEEPEST: Final = 4
_REACHES: Final = (names.SOURCE, names.URL, names.LOGIN, names.LOGIN_NAME, names.LOGIN_SECRET, names.AUTH)

_RECORDS: Final = ("data", "items", "results", "records", "values", "rows", "entries", "value", "content")
_KEYS: Final = ("id", "uuid", "key", "_id", "uid")
_CHANGES: Final = ("updated_at", "updatedat", "updated", "last_updated", "modified_at", "modified", "last_modified",
                   "lastmodified", "modifiedat", "modified_on", "changed_at", "changed", "date_modified")  # fmt: skip
_BEGINNING: Final = "1970-01-01T00:00:00Z"
_CURSOR_PARAMS: Final = ("since", "updated_since", "updated_after", "modified_since", "changed_since", "from")
_NEXT: Final = ("next", "next_cursor", "nextcursor", "next_page_token", "nextpagetoken", "next_page", "nextpage",
                "next_url", "nexturl", "nextlink", "next_link", "@odata.nextlink", "next_token", "nexttoken",
                "continuation", "continuation_token", "cursor", "after", "end_cursor", "endcursor")  # fmt: skip
_PAGE_CURSOR_PARAMS: Final = ("cursor", "page_token", "pageToken", "after", "starting_after", "next_token", "token")
_NUMBER_PARAMS: Final = ("page", "page_number", "pageNumber", "p")
_OFFSET_PARAMS: Final = ("offset", "skip", "start")
_SIZE_PARAMS: Final = ("limit", "per_page", "page_size", "pageSize", "size")


class Answer(NamedTuple):
    """links: the Link header by relation."""

    document: Any
    links: Mapping[str, str]


class Proposal(NamedTuple):
    """settings: what to set. words: the same for users."""

    settings: Mapping[str, str]
    words: str


def examine(config: Mapping[str, str]) -> Examination:
    """Ask the API for its first records, and propose the settings that describe its answer."""
    if not config.get(names.URL, "").strip():
        return Examination({names.URL: ["Give the address of a list, such as https://api.example.com/v1/orders."]})
    own = {name: config[name] for name in _REACHES if config.get(name, "").strip()}
    try:
        settings = CONFIG_DEF.parse({names.PREFIX: "", **own})
    except ConfigException as error:
        return Examination({_setting_in(str(error)): [str(error)]})
    try:
        looks = _Looks(settings)
        answer = looks.ask({})
        return _describe(answer, looks)
    except _Unreachable as error:
        return Examination({error.setting: [redact_text(settings, str(error))]})
    except (ConnectorError, EgressDenied) as error:
        message = str(error).replace(names.REST, names.URL)
        return Examination({_setting_in(message): [redact_text(settings, message)]})


def _setting_in(message: str) -> str:
    """Return the setting that a message begins with."""
    return next((name for name in _REACHES if f"{name}:" in message or f"configuration {name}" in message), names.URL)


class _Unreachable(Exception):
    """setting: the one to correct."""

    def __init__(self, setting: str, text: str) -> None:
        super().__init__(text)
        self.setting = setting


class _Looks:
    """The requests of one examination. `ask` raises `_Unreachable`, `ConnectorError` and `EgressDenied`."""

    def __init__(self, settings: ParsedConfig) -> None:
        self.url = settings.string(names.URL).strip()
        parts = urlsplit(self.url)
        # The same rules as for the connector itself, before anything is sent.
        parse_rest_config(as_json(settings))
        self._where = parts.netloc
        self._session = requests.Session()
        restrict_session(self._session, seconds=_REQUEST_SECONDS)
        self._session.headers.update({"Accept": "application/json", **_login(settings)})
        self._end = time.monotonic() + _SECONDS

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def ask(self, params: Mapping[str, str]) -> Answer:
        """Request the address with these parameters in addition to its own."""
        parts = urlsplit(self.url)
        query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return self._get(urlunsplit(parts._replace(query=urlencode({**query, **params}))))

    def try_asking(self, params: Mapping[str, str]) -> Answer | None:
        """Return the answer; None for an error, and when the time is over."""
        if self.is_over:
            return None
        try:
            return self.ask(params)
        except (_Unreachable, ConnectorError, EgressDenied):
            return None

    def _get(self, url: str) -> Answer:
        try:
            response = JsonResponse.of(self._session.get(url, timeout=_REQUEST_SECONDS))
        except requests.RequestException as error:
            diagnosis = diagnose(error, self._where)
            raise _Unreachable(
                names.URL, diagnosis.text if diagnosis else f"No answer from {self._where}: {type(error).__name__}."
            ) from error
        status = response.status_code
        if status in (401, 403):
            cause = Cause.LOGIN if status == 401 else Cause.PERMISSION
            raise _Unreachable(names.LOGIN, f"{describe(cause, self._where)} (status {status})")
        if status >= 400:
            raise _Unreachable(names.URL, f"{self._where} answers with status {status}. {_what_helps(status)}")
        try:
            document = response.json()
        except ResponseError as error:
            raise _Unreachable(names.URL, f"{error}.") from error
        links = {str(each.get("rel", "")): str(each.get("url", "")) for each in response.links.values()}
        return Answer(document, links)


def _login(settings: ParsedConfig) -> dict[str, str]:
    """Return the headers of the login. Raises `ConnectorError`."""
    auth = build_auth(settings) or parse_auth(secret_text(settings, names.AUTH))
    match auth:
        case {"type": names.BEARER, "token": token}:
            return {"Authorization": f"Bearer {token}"}
        case {"type": names.API_KEY, "name": name, "api_key": key}:
            return {name: key}
        case {"type": names.HTTP_BASIC, "username": user, "password": password}:
            return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}
        case _:
            return {}


def _what_helps(status: int) -> str:
    match status:
        case 404 | 410:
            return "Check the path of the address."
        case 429:
            return "It takes no more requests now: try again in a minute."
        case _ if status >= 500:
            return "The API itself has failed: try again."
        case _:
            return "Check the address and its parameters."


def _describe(answer: Answer, looks: _Looks) -> Examination:
    path, rows = find_records(answer.document)
    if path is None:
        return Examination({names.RECORDS: ["The answer contains no list of objects. Check the address."]})
    pages = _find_pages(answer, path, rows, looks)
    cursor = _find_cursor(path, rows, looks)
    key = find_key(rows, name_list(looks.url))
    proposals = {
        **({names.RECORDS: path} if path else {}),
        **({names.KEY: key} if key else {}),
        **pages.settings,
        **cursor.settings,
        **({names.CHANGES: "true"} if key and not cursor.settings else {}),
    }
    count = f"{len(rows)} record{'s' if len(rows) != 1 else ''}"
    where = f" under {path}" if path else ""
    parts = [f"{count}{where}", pages.words, cursor.words]
    return Examination(summary=f"{'; '.join(filter(None, parts))}.", proposals=proposals)


def find_records(document: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the path of the records and the records; None for an answer without a list of objects.

    An empty list is one, if nothing else is.
    """
    lists = sorted(_lists(document, ""), key=lambda entry: (not entry[1], _rank(entry[0]), -len(entry[1])))
    return lists[0] if lists else (None, [])


def _lists(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if isinstance(value, list):
        if all(isinstance(each, dict) for each in value):
            yield path, value
        return
    if isinstance(value, dict) and depth < _DEEPEST:
        for name, inner in value.items():
            if "." not in name:
                yield from _lists(inner, f"{path}.{name}" if path else name, depth + 1)


def _rank(path: str) -> tuple[int, int]:
    """Lists near the top come first, and among those the usual names."""
    last = path.rpartition(".")[2].lower()
    return path.count("."), _RECORDS.index(last) if last in _RECORDS else len(_RECORDS)


def find_key(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return the field that identifies the records; "" if none does."""
    singular = name.removesuffix("s").lower()
    candidates = [*_KEYS, f"{singular}_id", f"{singular}id"]
    fields = {field.lower(): field for field in (rows[0] if rows else {})}
    for field in (fields[each] for each in candidates if each in fields):
        values = [row.get(field) for row in rows]
        if all(isinstance(value, str | int) for value in values) and len(set(values)) == len(values):
            return field
    return ""


def _find_cursor(path: str, rows: Sequence[Mapping[str, Any]], looks: _Looks) -> Proposal:
    """Propose the field of the last change, and the parameter that takes it, if one of the usual ones does."""
    fields = {field.lower(): field for field in (rows[0] if rows else {})}
    cursor = next((fields[each] for each in _CHANGES if each in fields and _is_time(fields[each], rows)), "")
    if not cursor:
        return Proposal({}, "no field says when a record was changed")
    values, words = [row[cursor] for row in rows], f"cursor {cursor}"
    second = min((value for value in values if value > min(values)), default=None)
    if second is None:
        return Proposal({names.CURSOR: cursor}, words)
    start = "0" if isinstance(second, int) else _BEGINNING
    for param in _CURSOR_PARAMS:
        newer = looks.try_asking({param: str(second)})
        records = None if newer is None else records_at(newer.document, path)
        if records and records != rows and all(_is_behind(row, cursor, second) for row in records):
            settings = {names.CURSOR: cursor, names.CURSOR_PARAM: param, names.CURSOR_START: start}
            return Proposal(settings, f"{words}, which {param} takes")
    return Proposal({names.CURSOR: cursor}, words)


def _is_behind(row: Any, cursor: str, value: Any) -> bool:
    """Return whether the row was changed at this time or later."""
    changed = row.get(cursor) if isinstance(row, dict) else None
    return changed is not None and type(changed) is type(value) and bool(changed >= value)


def _is_time(field: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all values are numbers, or texts in the form of a date."""
    values = [row.get(field) for row in rows]
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return True
    return all(isinstance(value, str) and value[:4].isdecimal() and value[4:5] == "-" for value in values)


def records_at(document: Any, path: str) -> list[Any] | None:
    """Return the list at a path; None if there is none."""
    value = document
    for part in path.split(".") if path else ():
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, list) else None


def _find_pages(answer: Answer, path: str, rows: Sequence[Any], looks: _Looks) -> Proposal:
    if "next" in answer.links:
        return Proposal({names.PAGES: names.BY_HEADER}, "pages by the Link header")
    for place, value in _next_values(answer.document, path):
        if value.startswith(("http://", "https://", "/", "?")):
            return Proposal({names.PAGES: names.BY_LINK, names.NEXT: place}, f"pages by the link {place}")
        params = dict.fromkeys([place.rpartition(".")[2].removeprefix("next_"), *_PAGE_CURSOR_PARAMS])
        for param in params:
            if _differs(looks, {param: value}, path, rows):
                settings = {names.PAGES: names.BY_CURSOR, names.NEXT: place, names.PAGE_PARAM: param}
                return Proposal(settings, f"pages by the cursor {place}")
    return _find_counted_pages(path, rows, looks)


def _next_values(document: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the places outside the records that may name the next page, with their values."""
    for place, value in _texts(document, "", path):
        if place.rpartition(".")[2].lower() in _NEXT and value:
            yield place, value


def _texts(value: Any, path: str, left_out: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    if path and path == left_out:
        return
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        yield path, str(value)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for name, inner in value.items():
            if "." not in name or depth == 0:
                yield from _texts(inner, f"{path}.{name}" if path else name, left_out, depth + 1)


def _find_counted_pages(path: str, rows: Sequence[Any], looks: _Looks) -> Proposal:
    """Try pages by number and by offset. An API that ignores a parameter returns the same records."""
    if not rows or _differs(looks, {}, path, rows):  # the records change by themselves
        return Proposal({}, "")
    for param in _NUMBER_PARAMS:
        if _differs(looks, {param: "2"}, path, rows):
            first = "0" if _differs(looks, {param: "1"}, path, rows) else "1"
            settings = {names.PAGES: names.BY_NUMBER, names.PAGE_PARAM: param, names.PAGE_FIRST: first}
            return Proposal(settings, f"pages by the number {param}")
    for param in _OFFSET_PARAMS:
        if _differs(looks, {param: str(len(rows))}, path, rows):
            size = _find_size_param(path, rows, looks)
            settings = {names.PAGES: names.BY_OFFSET, names.PAGE_PARAM: param, names.PAGE_SIZE: str(len(rows))}
            return Proposal({**settings, names.PAGE_SIZE_PARAM: size}, f"pages by {param}")
    return Proposal({}, "all in one page")


def _find_size_param(path: str, rows: Sequence[Any], looks: _Looks) -> str:
    """Return the parameter for the number of records in a page; the usual one if none has an effect."""
    if len(rows) > 1:
        for param in _SIZE_PARAMS:
            answer = looks.try_asking({param: "1"})
            if answer is not None and len(records_at(answer.document, path) or rows) == 1:
                return param
    return _SIZE_PARAMS[0]


def _differs(looks: _Looks, params: Mapping[str, str], path: str, rows: Sequence[Any]) -> bool:
    """Return whether these parameters lead to other records, or to none."""
    answer = looks.try_asking(params)
    if answer is None:
        return False
    records = records_at(answer.document, path)
    return records is not None and records != rows
