"""Names and words: functions are verbs, and prose uses the field's terms (see CONTRIBUTING.md)."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ("connectors", "fencing", "platform/ringfence")
VERBS_IN_ED = {"embed", "exceed", "feed", "need", "proceed", "seed", "speed"}
PARTICIPLES = frozenset(
    [
        "begun",
        "bound",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "done",
        "drawn",
        "found",
        "given",
        "gone",
        "grown",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "left",
        "lost",
        "made",
        "meant",
        "said",
        "seen",
        "sent",
        "shown",
        "sold",
        "spent",
        "stolen",
        "taken",
        "thought",
        "told",
        "understood",
        "won",
        "written",
    ]
)
PREPOSITIONS = {"again", "as", "by", "from", "in", "of", "on", "out", "to"}
VAGUE = frozenset(
    [
        "asked",
        "chosen",
        "found",
        "given",
        "gone",
        "held",
        "kept",
        "known",
        "listed",
        "made",
        "met",
        "named",
        "parsed",
        "said",
        "seen",
        "sent",
        "shown",
        "taken",
        "told",
        "wanted",
        "written",
    ]
)
"""As the name of a value, each of these says what happened to it, and not what it is."""
PUBLISHED = ("Shape", "ReplayDeadLetters")
"""The ends of the names of classes whose fields are names in JSON."""
COLUMNS = "display"
"""Django admin's decorator of a column, whose name is a noun or an adjective."""
BANNED = {
    "anew": "again",
    "meanwhile": "while, or in the meantime",
    "whole number": "integer",
    "homeless": "unassigned",
    "barren": "without progress",
}


BANNED_NAMES = {
    "bury": "reap",
    "came": "result",
    "carrier": "migration",
    "carry": "migrate",
    "hurry": "end_now, retry_now",
    "seat": "membership",
    "sit": "run_membership",
}
"""Of functions, parameters and variables."""


_KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Name, ast.Attribute, ast.arg)
"""The nodes that give a name."""


@dataclass
class Names:
    """Where a name stands that breaks a rule."""

    participles: list[str] = field(default_factory=list)
    vague: list[str] = field(default_factory=list)
    banned: list[str] = field(default_factory=list)


def python_files() -> list[Path]:
    return sorted(file for root in SOURCES for file in (ROOT / root).rglob("*.py") if "migrations" not in file.parts)


def participle_functions(file: Path, nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if any("property" in one or COLUMNS in one for one in decorators):
            continue  # a value: it may be an adjective
        word, *rest = node.name.strip("_").split("_")
        participle = word in PARTICIPLES or (word.endswith("ed") and word not in VERBS_IN_ED)
        if participle and (not rest or rest[0] in PREPOSITIONS):  # `allowed_methods` is a noun
            yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}"


def prose_of(file: Path) -> Iterator[tuple[int, str]]:
    """Comments and strings of a Python file, every line of another one."""
    text = file.read_text()
    if file.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            yield token.start[0], token.string


def test_functions_are_verbs() -> None:
    assert names().participles == []


def vague_values(file: Path, nodes: Sequence[ast.AST]) -> Iterator[str]:
    if "models" in file.parts or file.name == "models.py":
        return  # they keep the names of their columns
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name.endswith(PUBLISHED)]
    published = {name for each in classes for statement in each.body for name in ast.walk(statement)}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case ast.arg(arg=name) | ast.ClassDef(name=name):
                pass
            case _:
                continue
        if name.strip("_").lower() in VAGUE and not name.isupper() and node not in published:
            yield f"{file.relative_to(ROOT)}:{node.lineno}: {name}"


def test_values_are_nouns() -> None:
    assert names().vague == []


def banned_names(file: Path, nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case _:
                continue
        if better := BANNED_NAMES.get(name.strip("_").lower()):
            yield f"{file.relative_to(ROOT)}:{node.lineno}: {name}, better {better}"


@cache
def names() -> Names:
    """To read all files and to walk through their trees takes longer than all that is looked for in them."""
    found = Names()
    ours = set(python_files())
    for file in (*sorted(ours), *(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tools").glob("*.py")):
        nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, _KINDS)]
        found.vague += vague_values(file, nodes)
        if file in ours:
            found.participles += participle_functions(file, nodes)
            found.banned += banned_names(file, nodes)
    return found


def test_names_are_the_fields_own() -> None:
    assert names().banned == []


@pytest.mark.parametrize(("word", "better"), BANNED.items())
def test_prose_uses_plain_words(word: str, better: str) -> None:
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    documents = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    files = [*python_files(), *documents, *(ROOT / "templates").rglob("*.html")]
    suspects = [file for file in files if pattern.search(file.read_text())]  # to tokenize them all takes a while
    found = [
        f"{file.relative_to(ROOT)}:{line}" for file in suspects for line, text in prose_of(file) if pattern.search(text)
    ]
    assert found == [], f"write {better!r} in place of {word!r}"
