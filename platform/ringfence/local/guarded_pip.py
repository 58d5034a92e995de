"""Runs pip so that nothing of a package runs, and so that every file comes from the worker's index.

A script for the Python of a new environment: `python -I guarded_pip.py FOLDER ARGUMENTS`, where FOLDER is the one that
contains pip. It imports nothing of ours, since the environment has nothing of ours.

`--only-binary :all:` is not enough: it does not apply to a dependency with an address of its own (`name @ URL`, PEP
508), which pip fetches from there, and builds if it is no wheel. Two rules close this, at any depth of dependencies:

- A requirement with an address ends pip before it is fetched. This patches a private part of pip. Without that part,
  pip does not start.
- pip starts no process. It builds packages in processes only, so their code does not run, whatever leads to a build.
"""

import importlib.machinery
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any

_PROCESSES = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen",
})  # fmt: skip


class _OnlyPip:
    """Finds pip in a folder, and none of the folder's other packages: they are not part of the environment."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        return importlib.machinery.PathFinder.find_spec(name, [self._folder]) if name == "pip" else None


def _refuse_processes(event: str, _arguments: tuple[object, ...]) -> None:
    if event in _PROCESSES:
        # An OSError: pip goes on where it only wants to know the machine's name and version.
        raise PermissionError("A package would have to be built, and only wheels are installed")


def _refuse_addresses() -> None:
    from pip._vendor.packaging.requirements import Requirement

    parse = Requirement.__init__

    def parse_without_address(self: Any, text: str, *more: Any, **others: Any) -> None:
        parse(self, text, *more, **others)
        if self.url is not None:
            print(
                f"ERROR: A package requires {self.name} from an address of its own. Only the worker's index is used: "
                "publish that package there, and require it by name and version",
                file=sys.stderr,
                flush=True,
            )
            os._exit(1)  # pip has handlers for every exception

    Requirement.__init__ = parse_without_address  # type: ignore[method-assign, assignment] # that is what this adapter is for


def main() -> None:
    folder = sys.argv.pop(1)
    sys.meta_path.insert(0, _OnlyPip(folder))
    _refuse_addresses()
    sys.addaudithook(_refuse_processes)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
