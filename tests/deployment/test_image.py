"""The Dockerfile against the checkout, without a Docker engine."""

import re
import tomllib
from fnmatch import fnmatch
from importlib.metadata import requires

from django.conf import settings
from packaging.requirements import Requirement

from ringfence.local.java import MINIMUM
from tests.support import database as _database  # noqa: F401 - sets Django up
from tests.support.compose import ROOT
from tests.support.dockerfile import LINES, copied

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_nothing_but_what_is_copied_is_in_the_context() -> None:
    """So no secret and no local state can get in, whatever its name is."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert let_in == {name.partition("/")[0] for name in copied()}
    for name in copied():
        assert (ROOT / name).exists(), name
        assert not any(fnmatch(name, line) for line in lines[1:] if not line.startswith("!")), name


def test_all_that_runs_is_copied() -> None:
    roots = {path.split("/")[0] for path in PROJECT["tool"]["setuptools"]["package-dir"].values()}
    pages = {
        str(path.resolve().relative_to(ROOT)) for path in (settings.PACKAGE / "templates", *settings.STATICFILES_DIRS)
    }
    files = {"pyproject.toml", "requirements.lock", "manage.py", PROJECT["project"]["readme"]}
    assert roots | pages | files <= copied()
    assert not copied() & {"tests", ".env", "."}


def test_what_is_installed_is_what_the_project_offers() -> None:
    *fetched, own = (line for line in LINES if "pip install" in line)
    assert len(fetched) == 2
    assert all("--require-hashes " in line for line in fetched)
    assert "--no-build-isolation" in fetched[-1], "what builds a package would be fetched without a look at its hash"
    assert "--no-index --no-deps --no-build-isolation" in own
    assert "-e " in own, "our code is copied later, as a layer of its own"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    """Name and version; lines of hashes are left out."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / file).read_text(), re.MULTILINE)
    return {normal(name): version for name, version in found}


def needed(extras: set[str]) -> set[str]:
    """The packages that ours takes on Linux with CPython and these extras, and theirs, as the installed ones say."""
    wanted: set[str] = set()
    todo = [Requirement(f"ringfence[{','.join(sorted(extras))}]")]
    done: set[tuple[str, frozenset[str]]] = set()
    while todo:
        one = todo.pop()
        key = (normal(one.name), frozenset(one.extras))
        if key in done:
            continue
        done.add(key)
        wanted.add(key[0])
        for text in requires(one.name) or []:
            more = Requirement(text)
            if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in ["", *one.extras]):
                todo.append(more)
    return wanted - {"ringfence"}


def test_the_lock_has_all_that_the_image_needs_at_the_versions_of_the_tests() -> None:
    locked, tested = pins("requirements.lock"), pins("constraints.txt")
    assert {name: version for name, version in locked.items() if tested.get(name) != version} == {}, "make lock"
    assert locked.keys() == needed({"otlp", "postgres", "schema-registry"}) | {"setuptools"}, "make lock"


def test_each_package_of_the_lock_has_its_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(pins("requirements.lock"))
    for name, *hashes in lines:
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), name


def test_a_change_of_our_code_leaves_the_installed_packages_as_they_are() -> None:
    """Spark is in that layer: before it come only the files that pip looks at."""
    install = next(number for number, line in enumerate(LINES) if "pip install" in line)
    before = [line for line in LINES[:install] if line.startswith("COPY") and "--from" not in line]
    packages = {f"{path}/__init__.py" for path in PROJECT["tool"]["setuptools"]["package-dir"].values()}
    settings = {"pyproject.toml", "requirements.lock", "README.md", "LICENSE"}
    assert {name for line in before for name in line.split()[1:-1]} == packages | settings


def test_bases_are_pinned_and_new_enough() -> None:
    bases = [
        re.match(r"FROM (\S+?):(\d+)\.(\d+)\.(\d+)\S*@sha256:[0-9a-f]{64}( |$)", line)
        for line in LINES
        if line.startswith("FROM")
    ]
    versions = {base[1]: (int(base[2]), int(base[3])) for base in bases if base is not None}
    assert len(versions) == len(bases)
    assert versions["eclipse-temurin"][0] >= MINIMUM
    least = tuple(int(part) for part in PROJECT["project"]["requires-python"].removeprefix(">=").split("."))
    assert versions["python"] >= least
    assert f"JAVA_HOME={next(line for line in LINES if '--from=java' in line).split()[-1]}" in "\n".join(LINES)


def test_sparks_drivers_find_the_archive_of_their_classes() -> None:
    """It is in the cache of the user that runs the worker, and made of what was copied."""
    made = next(number for number, line in enumerate(LINES) if "ringfence.local.class_archives" in line)
    assert LINES.index("USER ringfence") < made
    assert made > max(number for number, line in enumerate(LINES) if line.startswith(("COPY", "ENV")))


def test_it_runs_as_nobody_special() -> None:
    assert [line.split()[1] for line in LINES if line.startswith("USER")] == ["ringfence"]
    assert LINES.index("USER ringfence") < next(i for i, line in enumerate(LINES) if line.startswith("ENTRYPOINT"))
