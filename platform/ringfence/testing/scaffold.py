"""`ringfence plugins new`: creates a package with a working connector, its tests, and an example configuration."""

import keyword
import re
from pathlib import Path
from string import Template
from typing import Final

from ringfence.local.errors import LocalError

_TEMPLATES: Final = Path(__file__).parent / "scaffold_files"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_ ][A-Za-z0-9]+)*")
_FILES: Final = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "src/{package}/README.md",
    "gitignore": ".gitignore",
    "init.py": "src/{package}/__init__.py",
    "connector.py": "src/{package}/connector.py",
    "settings.py": "src/{package}/settings.py",
    "task.py": "src/{package}/task.py",
    "conftest.py": "tests/conftest.py",
    "scenario.py": "tests/scenario.py",
    "test_task.py": "tests/test_task.py",
    "test_exactly_once.py": "tests/test_exactly_once.py",
    "example.json": "example.json",
    "sample.txt": "sample/first.txt",
}
"""The target of each template."""


def create_package(name: str, parent: Path) -> Path:
    """Create a folder in `parent`, with the package of a connector called `name`. Raises LocalError."""
    if not _NAME.fullmatch(name):
        raise LocalError(f"{name!r} cannot be a connector's name: use letters, digits and hyphens, such as weather-api")
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])", name)
    package = "_".join(words).lower()
    if keyword.iskeyword(package) or package == "ringfence":
        raise LocalError(f"{package!r} cannot be a package's name: choose another one")
    names = {
        "package": package,
        "distribution": package.replace("_", "-"),
        "class_name": "".join(word[:1].upper() + word[1:] for word in words),
    }
    folder = parent / names["distribution"]
    if folder.exists():
        raise LocalError(f"{folder} exists already: choose another name, or another folder with --into")
    for template, place in _FILES.items():
        text = Template((_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")).substitute(names)
        path = folder / place.format(**names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
