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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ringfence.engine.browsing.expression_operators import (
    COMPARISONS,
    Names,
    Node,
    Scope,
    both,
    either,
    follow,
    join_comparison,
    truth,
)

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
