"""The operators of the language for filters: what equals, contains, matches or is true. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

Names = Mapping[str, Any]
Node = Callable[[Names], Any]


def follow(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(step, str) and isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def both(left: Node, right: Node) -> Node:
    return lambda names: truth(left(names)) and truth(right(names))


def either(left: Node, right: Node) -> Node:
    return lambda names: truth(left(names)) or truth(right(names))


def truth(value: Any) -> bool:
    return value is not None and value is not False


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Any, right: Any) -> bool:
    return bool(type(left) is type(right) or (is_number(left) and is_number(right))) and bool(left == right)


def compare_alike(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        alike = (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str))
        return alike and test(left, right)

    return compare


def contains(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return isinstance(left, list | Mapping) and any(equal(each, right) for each in left)


def of_texts(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: isinstance(left, str) and isinstance(right, str) and test(left, right)


def is_like(text: str, pattern: str) -> bool:
    """`*` and `?`, without going back further than the last `*`: time is bounded by the product of the lengths."""
    at = in_pattern = 0
    star, after = -1, 0
    while at < len(text):
        if in_pattern < len(pattern) and pattern[in_pattern] in ("?", text[at]) and pattern[in_pattern] != "*":
            at, in_pattern = at + 1, in_pattern + 1
        elif in_pattern < len(pattern) and pattern[in_pattern] == "*":
            star, after, in_pattern = in_pattern, at, in_pattern + 1
        elif star >= 0:
            after += 1
            at, in_pattern = after, star + 1
        else:
            return False
    return not pattern[in_pattern:].strip("*")


COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": compare_alike(lambda left, right: left < right),
    "<=": compare_alike(lambda left, right: left <= right),
    ">": compare_alike(lambda left, right: left > right),
    ">=": compare_alike(lambda left, right: left >= right),
    "contains": contains,
    "startswith": of_texts(str.startswith),
    "endswith": of_texts(str.endswith),
    "like": of_texts(is_like),
}
