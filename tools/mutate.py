"""Change the kernel's pure modules in small ways, and list the changes that no fast test notices: `make mutate`.

Each change is made in memory, in a process of its own, which runs the tests in tests/ that import the module. A list of
survivors is not a list of gaps: a change may mean the same as the original.
"""

import argparse
import ast
import importlib.abc
import importlib.machinery
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
MODULES = (
    *("fencing/leader/" + name for name in ("assignment", "fencing_round", "next_placement", "reconcile", "restarts")),
    *("fencing/topics/config_records/" + name for name in ("placement", "task_count", "drain", "tombstone")),
    *("fencing/topics/status/" + name for name in ("task", "worker", "connector", "leader")),
    *("fencing/topics/" + name for name in ("cluster_state", "connector_state", "config_value", "active_topics")),
    *("fencing/share/" + name for name in ("offset_ranges", "processed_offsets", "group_moves")),
    *("fencing/records/" + name for name in ("dead_letter", "error_policy", "topic_name_check")),
    "fencing/task/boundaries",
    "fencing/transactions/checksums",
    "fencing/ids",
    "connectors/secret_names",
)
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    line: int
    change: str
    source: str


def changes_of(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What a node may become, each with its description."""
    new = deepcopy(node)
    match new:
        case ast.Compare(ops=[operator, *_]) if type(operator) in COMPARISONS:
            new.ops[0] = COMPARISONS[type(operator)]()
            yield "comparison", new
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
            yield "and/or", new
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not dropped", operand
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            new.op = OPERATORS[type(operator)]()
            yield "operator", new
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "constant + 1", ast.Constant(value + 1)
        case ast.Return(value=ast.expr()):
            new.value = ast.Constant(None)
            yield "returns None", new
        case ast.Expr(value=ast.Call()) | ast.Assign() | ast.AugAssign() | ast.Raise():
            yield "statement removed", ast.Pass()
        case ast.Call(args=[_, _, *_]):
            new.args.pop()
            yield "last argument dropped", new


def mutants_of(source: str) -> list[Mutant]:
    tree = ast.parse(source)
    mutants = []
    for parent in _inside_functions(tree):
        for name, value in ast.iter_fields(parent):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            children = value if isinstance(value, list) else [value]
            for index, child in enumerate(children):
                if not isinstance(child, ast.AST) or _is_docstring(child):
                    continue
                for change, new in changes_of(child):
                    _put(parent, name, index, new)
                    mutants.append(Mutant(child.lineno, change, ast.unparse(ast.fix_missing_locations(tree))))  # type: ignore[attr-defined]  # each has a place
                    _put(parent, name, index, child)
    return mutants


def _put(parent: ast.AST, name: str, index: int, node: ast.AST) -> None:
    value = getattr(parent, name)
    if isinstance(value, list):
        value[index] = node
    else:
        setattr(parent, name, node)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _inside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for statement in (function, *function.body):
                yield from ast.walk(statement) if statement is not function else (function,)


def dotted(module: str) -> str:
    return "ringfence." + module.replace("/", ".")


def tests_of(module: str) -> list[str]:
    """The test modules that import something of the module, from it or from its package."""
    tree = ast.parse((ROOT / f"{module}.py").read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    package = dotted(module).rpartition(".")[0]
    above, _, name = package.rpartition(".")

    def concerns(node: ast.AST) -> bool:
        if not isinstance(node, ast.ImportFrom):
            return False
        names = {each.name for each in node.names}
        return (
            node.module == dotted(module)
            or (node.module == package and bool(names & {*defined, module.rpartition("/")[2]}))
            or (node.module == above and name in names)
        )

    folders = (ROOT / "tests" / name for name in ("fencing", "connectors", "engine"))
    paths = sorted(path for folder in folders for path in folder.glob("test_*.py"))
    return [
        path.relative_to(ROOT).as_posix() for path in paths if any(map(concerns, ast.walk(ast.parse(path.read_text()))))
    ]


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another source."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        self._name, self._path, self._source = name, path, source

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, origin=str(self._path)) if name == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, str(self._path), "exec"), module.__dict__)


def run(module: str, source: str, tests: list[str], seconds: float) -> bool:
    """Return whether all tests pass with that source."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        import pytest

        sys.meta_path.insert(0, Replaced(dotted(module), ROOT / f"{module}.py", source))
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES, help="as fencing/leader/restarts")
    parser.add_argument("--most", type=int, default=20, help="changes of each module, drawn at random (%(default)s)")
    parser.add_argument("--minutes", type=float, default=30.0, help="for all together (%(default)s)")
    arguments = parser.parse_args()
    os.environ["RINGFENCE_TESTS_PURE"] = "1"
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    # What every process needs, once; nothing of ours, as that would have imported the module that is changed.
    for name in (
        "pytest",
        "hypothesis",
        "confluent_kafka",
        "kafka",
        "cryptography.fernet",
        "orjson",
        "xdist.scheduler",
    ):
        __import__(name)
    until = time.monotonic() + arguments.minutes * 60
    for module in arguments.modules:
        if time.monotonic() > until:
            print(f"{module}: no time left")
            continue
        mutate(module, arguments.most, until)
    return 0


def mutate(module: str, most: int, until: float) -> None:
    source, tests = (ROOT / f"{module}.py").read_text(), tests_of(module)
    started = time.monotonic()
    if not tests or not run(module, source, tests, 300):
        print(f"{module}: no fast tests, or they fail as it is: {' '.join(tests)}", flush=True)
        return
    limit = 10 + 4 * (time.monotonic() - started)
    mutants = mutants_of(source)
    random.Random(7).shuffle(mutants)
    tried, survivors = 0, []
    for mutant in mutants[:most]:
        if time.monotonic() > until:
            break
        tried += 1
        if run(module, mutant.source, tests, limit):
            survivors.append(mutant)
    print(f"{module}: {tried - len(survivors)} of {tried} noticed ({len(mutants)} possible)", flush=True)
    lines = source.splitlines()
    for each in sorted(survivors, key=lambda one: one.line):
        print(f"  {module}.py:{each.line}: {each.change}: {lines[each.line - 1].strip()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
