"""`connectors` is `ringfence.connectors`: the same modules under the name that earlier plugins import."""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final

_REAL_NAMES: Final = {"connectors": "ringfence.connectors"}


class _AliasLoader(Loader):
    """Returns the module under another name. It is loaded once, so classes are the same under both names."""

    def __init__(self, real_name: str) -> None:
        self._real_name = real_name
        self._real_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._real_name)
        self._real_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._real_spec  # the import system has set the alias's spec


class AliasFinder(MetaPathFinder):
    """Finds the modules that the aliases of `real_names` stand for."""

    def __init__(self, real_names: dict[str, str]) -> None:
        self._real_names = real_names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for alias, real in self._real_names.items():
            if fullname == alias or fullname.startswith(f"{alias}."):
                name = real + fullname.removeprefix(alias)
                if find_spec(name) is not None:
                    return ModuleSpec(fullname, _AliasLoader(name), is_package=True)
        return None


def install() -> None:
    """Make the old names importable, ahead of a checkout's folders on `sys.path`, so that no module is loaded twice."""
    sys.meta_path.insert(0, AliasFinder(_REAL_NAMES))
