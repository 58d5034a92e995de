"""The operators of the language for filters: what equals, contains, matches or is true. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

Names = Mapping[str, Any]
STEPS: Final = 1_000_000
"""What an expression may take for one record: a fraction of a second."""
_PER_STEP: Final = 256
"""Characters that are searched in the time of a step."""


class TooManySteps(ValueError):
    """The expression takes too long for a record. The message is for users."""


class Scope:
    """One record's names, and the steps that are left for it."""

    __slots__ = ("_left", "names")

    def __init__(self, names: Names, steps: int = STEPS) -> None:
        self.names = names
        self._left = steps

    def spend(self, steps: int) -> None:
        """Raises `TooManySteps`."""
        self._left -= steps
        if self._left < 0:
            raise TooManySteps("it takes too many steps on one of the records: use fewer comparisons of long values")


Node = Callable[[Scope], Any]


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
    return lambda scope: truth(left(scope)) and truth(right(scope))


def either(left: Node, right: Node) -> Node:
    return lambda scope: truth(left(scope)) or truth(right(scope))


def join_comparison(sign: str, left: Node, right: Node) -> Node:
    compare = COMPARISONS[sign]

    def test(scope: Scope) -> bool:
        first, second = left(scope), right(scope)
        scope.spend(_steps(sign, first, second))
        return compare(first, second)

    return test


def _steps(sign: str, left: Any, right: Any) -> int:
    """Return what the comparison costs at most, in tests of one element or character."""
    size = (len(left) if isinstance(left, str | list | Mapping) else 0) + 1
    if sign == "contains" and not isinstance(left, str):
        return size
    if sign == "like" and isinstance(right, str) and "?" in right:
        return size * (1 + len(right) // _PER_STEP)
    return 1 + size // _PER_STEP


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
    """`*` and `?` stand for any characters and for one. Takes time in proportion to the text: each piece between two
    `*` matches where it first can.
    """
    first, *others = pattern.split("*")
    if not others:
        return len(text) == len(pattern) and _fits(text, first, 0)
    *between, last = others
    end = len(text) - len(last)
    if end < len(first) or not _fits(text, first, 0) or not _fits(text, last, end):
        return False
    at = len(first)
    for piece in filter(None, between):
        start = _find(text, piece, at, end)
        if start < 0:
            return False
        at = start + len(piece)
    return True


def _fits(text: str, piece: str, at: int) -> bool:
    return all(char in ("?", text[at + place]) for place, char in enumerate(piece))


def _find(text: str, piece: str, at: int, end: int) -> int:
    """Return where the piece is first, from `at` on and before `end`; -1 for nowhere."""
    if "?" not in piece:
        return text.find(piece, at, end)
    places = dict.fromkeys(piece, 0)
    for place, char in enumerate(piece):
        places[char] |= 1 << place
    anywhere = places.pop("?")
    whole = 1 << (len(piece) - 1)
    matched = 0  # bit n: the text up to here ends with the first n + 1 characters of the piece
    for place in range(at, end):
        matched = (matched << 1 | 1) & (places.get(text[place], 0) | anywhere)
        if matched & whole:
            return place - len(piece) + 1
    return -1


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
