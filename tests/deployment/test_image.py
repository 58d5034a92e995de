"""The Dockerfile against the checkout, without a Docker engine."""

import re
import tomllib
from fnmatch import fnmatch

from django.conf import settings

from ringfence.local.java import MINIMUM
from tests.support import database as _database  # noqa: F401 - sets Django up
from tests.support.compose import ROOT

LINES = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def copied() -> set[str]:
    """Names that come out of the checkout."""
    found: set[str] = set()
    for line in LINES:
        match line.split():
            case ["COPY", *names, _] if not names[0].startswith("--from"):
                found |= set(names)
    return found


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
    files = {"pyproject.toml", "constraints.txt", "manage.py", PROJECT["project"]["readme"]}
    assert roots | pages | files <= copied()
    assert not copied() & {"tests", ".env", "."}


def test_what_is_installed_is_what_the_project_offers() -> None:
    (install,) = (line for line in LINES if "pip install" in line)
    extras = re.search(r"'\.\[([\w,-]+)\]'", install)
    assert extras is not None
    wanted = set(extras[1].split(","))
    assert {"postgres", "schema-registry"} <= wanted <= PROJECT["project"]["optional-dependencies"].keys()
    assert "-c constraints.txt" in install
    assert "-e " in install, "our code is copied later, as a layer of its own"


def test_a_change_of_our_code_leaves_the_installed_packages_as_they_are() -> None:
    """Spark is in that layer: before it come only the files that pip looks at."""
    install = next(number for number, line in enumerate(LINES) if "pip install" in line)
    before = [line for line in LINES[:install] if line.startswith("COPY") and "--from" not in line]
    packages = {f"{path}/__init__.py" for path in PROJECT["tool"]["setuptools"]["package-dir"].values()}
    settings = {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"}
    assert {name for line in before for name in line.split()[1:-1]} == packages | settings


def test_bases_are_pinned_and_new_enough() -> None:
    bases = [re.match(r"FROM (\S+?):(\d+)\.(\d+)\.(\d+)\S*", line) for line in LINES if line.startswith("FROM")]
    versions = {base[1]: (int(base[2]), int(base[3])) for base in bases if base is not None}
    assert len(versions) == len(bases)
    assert versions["eclipse-temurin"][0] >= MINIMUM
    least = tuple(int(part) for part in PROJECT["project"]["requires-python"].removeprefix(">=").split("."))
    assert versions["python"] >= least
    assert f"JAVA_HOME={next(line for line in LINES if '--from=java' in line).split()[-1]}" in "\n".join(LINES)


def test_it_runs_as_nobody_special() -> None:
    assert [line.split()[1] for line in LINES if line.startswith("USER")] == ["ringfence"]
    assert LINES.index("USER ringfence") < next(i for i, line in enumerate(LINES) if line.startswith("ENTRYPOINT"))
