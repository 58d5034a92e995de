"""What is compared of an answer: status, media type, and the keys and types of its body."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Answer:
    """One server's answer to one request. `body`: the paths of its values with their types; `text` for the log.

    `refusal`: the first and the last line of the message of a refused configuration, which clients show or cut off.
    """

    status: int
    media_type: str
    body: frozenset[str]
    text: str
    refusal: str = ""

    @classmethod
    def of(cls, response: httpx.Response, by_name: bool = False) -> "Answer":
        """`by_name`: lists whose items have a name are compared name by name."""
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not response.content:
            return cls(response.status_code, "" if response.status_code in (202, 204) else media_type, frozenset(), "")
        try:
            value = response.json()
        except ValueError:
            return cls(response.status_code, media_type, frozenset({"$: text"}), response.text)
        body = frozenset(paths(value, by_name=by_name))
        return cls(response.status_code, media_type, body, response.text, _refusal(value))


def _refusal(body: Any) -> str:
    lines = str(body.get("message", "")).splitlines() if isinstance(body, dict) else []
    return f"{lines[0]} … {lines[-1]}" if len(lines) > 1 and lines[0].startswith("Connector configuration") else ""


def paths(value: Any, at: str = "$", *, by_name: bool = False) -> Iterator[str]:
    """`$.tasks().id: number` for each value; `()` stands for all items of a list."""
    match value:
        case dict():
            yield f"{at}: object"
            for key, item in value.items():
                yield from paths(item, f"{at}.{key}", by_name=by_name)
        case list():
            yield f"{at}: list"
            for item in value:
                name = _name(item) if by_name else ""
                yield from paths(item, f"{at}({name})", by_name=by_name)
        case None:
            yield f"{at}: null"
        case bool():
            yield f"{at}: boolean"
        case int() | float():
            yield f"{at}: number"
        case _:
            yield f"{at}: string"


def _name(item: Any) -> str:
    if isinstance(item, dict):
        named = item.get("definition", item)
        return str(named.get("name", "")) if isinstance(named, dict) else ""
    return ""


def facts(keys: list[dict[str, Any]]) -> dict[str, object]:
    """What a form is drawn by, of each setting: `name.fact` to its value. Words for people are everybody's own."""
    told = ("type", "required", "default_value", "importance", "group", "width", "dependents")
    return {f"{key['name']}.{fact}": key[fact] for key in keys for fact in told}
