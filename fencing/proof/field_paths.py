"""Finds a number in a record's key, value or headers by its path. Pure."""

from collections.abc import Sequence

import orjson

Headers = Sequence[tuple[str, bytes | None]]


def find_number(path: str, key: bytes | None, value: bytes | None, headers: Headers) -> object:
    """Return the number at a path such as `value.seqno`; None if there is none."""
    where, _, rest = path.partition(".")
    if where == "headers":
        name, _, rest = rest.partition(".")
        data = next((content for each, content in headers if each == name), None)
    else:
        data = key if where == "key" else value
    return _walk(_load(data), rest)


def _load(data: bytes | None) -> object:
    try:
        value = orjson.loads(data or b"null")
    except orjson.JSONDecodeError:
        return (data or b"").decode("utf-8", "replace")
    # JsonConverter with schemas wraps each value.
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def _walk(value: object, path: str) -> object:
    for name in filter(None, path.split(".")):
        value = value.get(name) if isinstance(value, dict) else None
    return value
