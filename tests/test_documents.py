"""What the documents for maintainers name exists: files, folders, and the pages that they link to."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs" / "decisions").glob("*.md"),
    *(ROOT / "docs" / "maintaining").glob("*.md"),
]
_PATH = re.compile(r"`([\w./-]+(?:\.(?:py|java|html|js|css|md|toml|txt|yml|yaml|conf|cfg)|/))`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_NOT_OURS = {".git", ".venv", "__pycache__", "node_modules"}
_LONGEST = 10_240
"""Bytes of ARCHITECTURE.md: it is read from top to bottom."""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    assert [path for path in _PATH.findall(document.read_text()) if not _exists(path)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_page_that_a_document_links_to_exists(document: Path) -> None:
    links = _LINK.findall(document.read_text())

    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_decision_is_in_the_list() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(_LINK.findall((folder / "README.md").read_text()))

    assert listed == {page.name for page in folder.glob("*.md")} - {"README.md"}


def test_the_architecture_fits_one_sitting() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= _LONGEST


def _exists(path: str) -> bool:
    """A path may leave out the folders that its sentence is about."""
    return any(f"/{path}" in file if path.endswith("/") else file.endswith(f"/{path}") for file in _files())


@cache
def _files() -> list[str]:
    return list(_walk())


def _walk() -> Iterator[str]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        yield from (f"/{Path(folder, file).relative_to(ROOT).as_posix()}" for file in files)
