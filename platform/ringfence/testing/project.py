"""An author's package in a folder: it can be tried without installing it."""

import importlib
import inspect
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from ringfence.connectors.plugin_environments import GROUP
from ringfence.connectors.plugins import PluginRegistry
from ringfence.local.errors import LocalError
from ringfence.testing.scenario import Scenario

_SCENARIO: Final = "scenario"


class Project:
    """Makes the package and its tests importable in this process. Raises LocalError if the folder has no connector."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        try:
            described = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))
            self._points: dict[str, str] = described["project"]["entry-points"][GROUP]
        except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
            raise LocalError(
                f"{self.folder} contains no connector ({type(error).__name__}: {error}): its pyproject.toml must have "
                f'[project.entry-points."{GROUP}"]. `ringfence plugins new NAME` creates such a folder'
            ) from error
        for name in ("src", "", "tests"):
            path = str(self.folder / name)
            if path not in sys.path:
                sys.path.insert(0, path)

    def registry(self) -> PluginRegistry:
        """Return only the connectors of this package; `broken` says why one cannot be loaded."""
        return PluginRegistry.discover([EntryPoint(name, value, GROUP) for name, value in self._points.items()])

    def scenarios(self) -> list[type[Scenario]]:
        """Return the scenarios in tests/scenario.py. Raises LocalError if there are none."""
        try:
            module = importlib.import_module(_SCENARIO)
        except ImportError as error:
            raise LocalError(f"{self.folder / 'tests' / 'scenario.py'} cannot be imported: {error}") from error
        classes = [each for _, each in inspect.getmembers(module, _is_scenario) if each.__module__ == _SCENARIO]
        if not classes:
            raise LocalError(f"{module.__file__} contains no subclass of ringfence.testing.Scenario")
        return classes


def _is_scenario(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Scenario) and not inspect.isabstract(value)
