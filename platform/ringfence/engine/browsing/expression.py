"""A small language for filters: `value.carrier == "UA" and (value.delay > 15 or not headers.source)`. Pure.

Nothing is evaluated as code: an expression is parsed into a tree of a few kinds of nodes. All of it takes a bounded
number of steps for a record. A missing field is null. Comparing values of different types is false, not an error.

    or, and, not, ( )
    == != < <= > >=          numbers with numbers, strings with strings
    contains, startswith, endswith       strings; `contains` also asks a list for an element and an object for a name
    like                     a string with a pattern, in which * and ? stand for any characters
    key value headers partition offset timestamp     with .name, ["name"] and [0] behind them
    "text" 'text' 12 -1.5 true false null
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


LONGEST: Final = 1000
_DEEPEST: Final = 30
_ROOTS: Final = frozenset({"key", "value", "headers", "partition", "offset", "timestamp"})
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_\-]*)|(?P<sign>==|!=|<=|>=|[<>().\[\]]))"""
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class Wrong(ValueError):
    """The expression is invalid. The message names the place."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Callable[[Names], bool]:
    """Return a function from a record's names (`key`, `value` …) to whether it matches. Raises `Wrong`.

    The function raises `TooManySteps` for a record on which the expression takes too long.
    """
    if len(text) > LONGEST:
        raise Wrong(f"an expression may have at most {LONGEST} characters")
    parser = _Parser(_tokens(text))
    node = parser.parse_any(0)
    parser.expect_end()
    return lambda names: truth(node(Scope(names)))


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Wrong(f"cannot be read from {text[at:].strip()[:20]!r} on")
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            raise Wrong(f"{self._tokens[self._at].text!r} is not expected there")

    def parse_any(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise Wrong("it is nested too deeply")
        node = self._parse_all(depth)
        while self._takes("or"):
            node = either(node, self._parse_all(depth))
        return node

    def _parse_all(self, depth: int) -> Node:
        node = self._parse_negation(depth)
        while self._takes("and"):
            node = both(node, self._parse_negation(depth))
        return node

    def _parse_negation(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise Wrong("it is nested too deeply")
        if self._takes("not"):
            inner = self._parse_negation(depth + 1)
            return lambda scope: not truth(inner(scope))
        return self._parse_comparison(depth)

    def _parse_comparison(self, depth: int) -> Node:
        left = self._parse_operand(depth)
        token = self._peek()
        if token is None or token.text not in COMPARISONS or token.kind not in ("sign", "word"):
            return left
        self._at += 1
        return join_comparison(token.text, left, self._parse_operand(depth))

    def _parse_operand(self, depth: int) -> Node:
        token = self._next()
        match token.kind:
            case "number":
                number = float(token.text) if "." in token.text else int(token.text)
                return lambda _: number
            case "text":
                text = _unquote(token.text)
                return lambda _: text
            case "word":
                return self._parse_name(token)
            case _:
                if token.text != "(":
                    raise Wrong(f"{token.text!r} is not expected there")
                node = self.parse_any(depth + 1)
                self._require(")")
                return node

    def _parse_name(self, token: _Token) -> Node:
        constants: dict[str, object] = {"true": True, "false": False, "null": None}
        if token.text in constants:
            constant = constants[token.text]
            return lambda _: constant
        if token.text not in _ROOTS:
            raise Wrong(f"{token.text!r} is not known: begin with {', '.join(sorted(_ROOTS))}, or quote a string")
        path: list[str | int] = []
        while True:
            if self._takes("."):
                step = self._next()
                if step.kind != "word":
                    raise Wrong(f"a name is expected behind the dot, not {step.text!r}")
                path.append(step.text)
            elif self._takes("["):
                step = self._next()
                if step.kind not in ("text", "number") or ("." in step.text and step.kind == "number"):
                    raise Wrong("a quoted name or an index is expected in the brackets")
                path.append(_unquote(step.text) if step.kind == "text" else int(step.text))
                self._require("]")
            else:
                break
        root, steps = token.text, tuple(path)
        return lambda scope: follow(scope.names.get(root), steps)

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> _Token:
        token = self._peek()
        if token is None:
            raise Wrong("it ends too early")
        self._at += 1
        return token

    def _takes(self, text: str) -> bool:
        token = self._peek()
        if token is None or token.text != text or token.kind not in ("word", "sign"):
            return False
        self._at += 1
        return True

    def _require(self, text: str) -> None:
        if not self._takes(text):
            raise Wrong(f"{text!r} is missing")


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1], flags=re.DOTALL)
