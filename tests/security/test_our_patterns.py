"""No regular expression of ours takes more than linear time for a text, unless something else bounds that text.

Every pattern in the source is attacked, with texts that are made from its own structure, in each way in which it is
used: so a new one that goes back is noticed here. Patterns that are put together while the program runs are not.
"""

import ast
import functools
import importlib
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import ringfence
from ringfence.alerts.root_causes import HINTS, TEXT_HINTS

ROOT: Final = Path(ringfence.__file__).parent
_LENGTH: Final = 40_000
_SECONDS: Final = 0.3
"""Of CPU time. A linear one takes a few milliseconds, a quadratic one of this length at least a second."""
_SHORT: Final = 2_000
_SHORT_SECONDS: Final = 0.001
"""What a linear one rarely takes for a short text. Whatever takes longer gets the long one."""
_METHODS: Final = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")
_FREQUENT: Final = "a0 ;\\"
_USES_PATTERNS: Final = re.compile(rf"\.({'|'.join(_METHODS)}|compile)\b")

_BOUNDED: Final = {
    "connectors.java.discovery:_IN_NAME": (255, "the name of a file"),
    "metrics.views:_NAME": (255, "the name of a metric of ours"),
}
"""Patterns that take longer, with the length of the longest text that they meet, and why it is not longer."""


@dataclass(frozen=True)
class Use:
    """A pattern, and one way in which it is used."""

    where: str
    pattern: "re.Pattern[Any]"
    method: str

    def on(self, text: str) -> None:
        subject: Any = text if isinstance(self.pattern.pattern, str) else text.encode("latin-1", "replace")
        if self.method == "sub":
            self.pattern.sub(subject[:0], subject)
        elif self.method == "finditer":
            for _ in self.pattern.finditer(subject):
                pass
        else:
            getattr(self.pattern, self.method)(subject)


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("", "fencing", "connectors"):
        base = (ROOT / folder).resolve()
        for path in sorted(base.rglob("*.py")):
            inside = path.relative_to(base)
            if "migrations" in inside.parts or (not folder and inside.parts[0] in ("fencing", "connectors")):
                continue
            name = ".".join(each for each in (folder, *inside.with_suffix("").parts) if each)
            text = path.read_text(encoding="utf-8")
            if _USES_PATTERNS.search(text):  # each process of a run does all this
                yield name.removesuffix(".__init__"), ast.parse(text)


def _find_uses() -> Iterator[Use]:
    """Yield the patterns of constants, as they are after the import, and those that are written where they are used."""
    methods: dict[tuple[str, str], set[str]] = defaultdict(set)
    constants: dict[str, re.Pattern[Any]] = {}
    for name, tree in _modules():
        compiles = False
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in _METHODS and isinstance(node.value, ast.Name):
                methods[name, node.value.id].add(node.attr)
                methods["", node.value.id].add(node.attr)
            compiles = compiles or (isinstance(node, ast.Attribute) and node.attr == "compile")
            if (found := _written_in_place(node)) is not None:
                yield Use(f"{name}:{found[0]}", *found[1:])
        if compiles:
            for key, value in vars(importlib.import_module(f"ringfence.{name}")).items():
                if isinstance(value, re.Pattern):
                    constants[f"{name}:{key}"] = value
    for where, pattern in constants.items():
        module, _, key = where.rpartition(":")
        # Sorted: each process of a run must find the same tests in the same order.
        for method in sorted(methods[module, key] or (not key.startswith("_") and methods["", key]) or _METHODS):
            yield Use(where, pattern, method)


def _written_in_place(node: ast.AST) -> "tuple[int, re.Pattern[Any], str] | None":
    """Return line, pattern and method of `re.search("…", …)` and its like."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS):
        return None
    if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and node.args):
        return None
    first = node.args[0]
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str | bytes)):
        return None
    flags = re.findall(r"re\.([A-Z]+)\b", ast.unparse(node))
    value = functools.reduce(lambda all_, each: all_ | getattr(re, each), flags, re.RegexFlag(0))
    return node.lineno, re.compile(first.value, value), node.func.attr


def _uses() -> list[Use]:
    hints = (("HINTS", HINTS), ("TEXT_HINTS", TEXT_HINTS))
    ours = {(each.where, each.method): each for each in _find_uses()}
    tables = [
        Use(f"alerts.root_causes:{name}[{number}]", re.compile(pattern), "search")
        for name, table in hints
        for number, (pattern, _) in enumerate(table)
    ]
    return [*ours.values(), *tables]


class _TooSlow(Exception):
    pass


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise _TooSlow


def _find_attack(use: Use, length: int = _LENGTH) -> str | None:
    """Return the beginning of a text for which it is not linear; None if there is none among the attempts."""
    before = signal.signal(signal.SIGVTALRM, _stop)
    try:
        for start, pump, end in _attacks(use.pattern):
            if _seconds(use, start, pump, end, min(length, _SHORT)) < _SHORT_SECONDS:
                continue
            if _seconds(use, start, pump, end, length) >= _SECONDS:
                return start + 3 * pump + "…" + end
    finally:
        signal.signal(signal.SIGVTALRM, before)
    return None


def _seconds(use: Use, start: str, pump: str, end: str, length: int) -> float:
    text = start + pump * max(1, length // len(pump)) + end
    began = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)  # an exponential one never ends
    try:
        use.on(text)
    except _TooSlow:
        return _SECONDS
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - began


def _attacks(pattern: "re.Pattern[Any]") -> list[tuple[str, str, str]]:
    """Return texts that such a pattern may read again and again: a beginning, what is repeated, and an end that does
    not fit.
    """
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    structure = importlib.import_module("re._parser").parse(source, pattern.flags & ~re.UNICODE)
    examples = _Examples(source)
    pumps: dict[tuple[str, str], None] = {}
    for before, bodies in examples.repetitions(structure, ""):
        for body in bodies:
            pumps |= dict.fromkeys([("", body), (before, body), ("", before + body), ("", body + before), ("", before)])
    pumps["", examples.one(structure)] = None
    return [(start, pump, end) for start, pump in pumps if pump for end in ("", "\x00")]


class _Examples:
    """Texts that parts of one pattern fit, or nearly so."""

    def __init__(self, source: str) -> None:
        self._characters = "".join(dict.fromkeys([*re.findall(r"[^\w\s]", source), *_FREQUENT, "A", "/", "\n"]))

    def repetitions(self, structure: Any, before: str) -> Iterator[tuple[str, list[str]]]:
        """Yield what precedes each repetition, and examples of what it repeats."""
        for operation, argument in structure:
            for most, inner in _parts(str(operation), argument):
                if most > 1:
                    yield before, self.several(inner)
                yield from self.repetitions(inner, before)
            before += self.one([(operation, argument)])

    def one(self, structure: Any) -> str:
        return "".join(next(iter(self.several([each])), "") for each in structure)

    def several(self, structure: Any) -> list[str]:
        """Return examples of the whole: of the first parts that have a choice, all choices."""
        texts = [""]
        for operation, argument in structure:
            choices = self._choices(str(operation), argument)
            texts = [text + choice for text in texts for choice in choices][:12]
        return texts

    def _choices(self, kind: str, argument: Any) -> list[str]:
        match kind:
            case "LITERAL":
                return [chr(argument)]
            case "NOT_LITERAL":
                return [each for each in self._characters if ord(each) != argument]
            case "ANY":
                return [*self._characters]
            case "IN":
                named = "".join(chr(value) for kind, value in argument if str(kind) == "LITERAL")
                fits = re.compile(_class_of(argument))
                return [each for each in dict.fromkeys(self._characters + named) if fits.fullmatch(each)] or [""]
            case "BRANCH":
                return [each for branch in argument[1] for each in self.several(branch)[:3]]
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, _, inner = argument
                return [each * max(1, least) for each in self.several(inner)] + [""] * (not least)
        inner = [part for _, part in _parts(kind, argument) if not kind.startswith("ASSERT")]
        return self.several(inner[0]) if inner else [""]


def _parts(kind: str, argument: Any) -> list[tuple[int, Any]]:
    """Return the patterns inside an operation, each with how often it may be repeated."""
    match kind:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [(int(argument[1]), argument[2])]
        case "SUBPATTERN":
            return [(1, argument[-1])]
        case "ATOMIC_GROUP":
            return [(1, argument)]
        case "ASSERT" | "ASSERT_NOT":
            return [(1, argument[1])]
        case "BRANCH":
            return [(1, branch) for branch in argument[1]]
    return []


def _class_of(items: Any) -> str:
    """Return the character class that was parsed."""
    names = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}
    texts = []
    for operation, value in items:
        match str(operation):
            case "NEGATE":
                texts.append("^")
            case "LITERAL":
                texts.append(re.escape(chr(value)))
            case "RANGE":
                texts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
            case _:
                name = str(value).removeprefix("CATEGORY_")
                letter = names[name.removeprefix("NOT_")]
                texts.append("\\" + (letter.upper() if name.startswith("NOT_") else letter))
    return f"[{''.join(texts)}]"


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r";.*\bextra\b", "search"),
        (r"\d+x", "search"),
        (r"(a|b)+c", "findall"),
        (r"(a+)+b", "match"),
        (r"\s+$", "sub"),
        (r'"(?:[^"\\]|\\.)*=', "search"),
        (r"(\w+)\s*=\s*x", "finditer"),
        (r"[0-9]*[0-9]*x", "fullmatch"),
        (r"\$\{[^}]*\}", "search"),
    ],
)
def test_a_pattern_that_goes_back_is_found(pattern: str, method: str) -> None:
    assert _find_attack(Use("here", re.compile(pattern), method)) is not None


@pytest.mark.parametrize("use", _uses(), ids=lambda use: f"{use.where}-{use.method}")
def test_a_pattern_of_ours_takes_linear_time(use: Use) -> None:
    length, _ = _BOUNDED.get(use.where, (_LENGTH, ""))
    attack = _find_attack(use, length)
    assert attack is None, f"{use.pattern.pattern!r}, {use.method}: {attack!r}"
