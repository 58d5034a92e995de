"""The same modules under a second name: `ringfence.connectors` is `connectors`, the API that authors write against."""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_REAL_NAMES: Final = {"ringfence.connectors": "connectors"}


class _AliasLoader(Loader):
    """Gives the module of another name, which is loaded once: classes are the same under both."""

    def __init__(self, real_name: str) -> None:
        self._real_name = real_name
        self._real_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._real_name)
        self._real_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._real_spec  # the import system has put the alias's there


class AliasFinder(MetaPathFinder):
    """Finds what no other finder knows and one of `real_names` stands for."""

    def __init__(self, real_names: dict[str, str]) -> None:
        self._real_names = real_names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for alias, real in self._real_names.items():
            if fullname == alias or fullname.startswith(f"{alias}."):
                loader = _AliasLoader(real + fullname.removeprefix(alias))
                return ModuleSpec(fullname, loader, is_package=True)
        return None


def install() -> None:
    """Make the second names importable; a package that is really there keeps its name."""
    sys.meta_path.append(AliasFinder(_REAL_NAMES))
