"""What `ringfence up` is still starting: a file that it writes, and that its web process reads for each page's head.

No Django here, because `up` writes it.
"""

from collections.abc import Sequence
from pathlib import Path


class Starting:
    """The file, with one name on a line. It is removed at the end; one that a killed `up` has left is written again."""

    def __init__(self, file: Path, names: Sequence[str]) -> None:
        self.file = file
        self._names = list(names)
        self._write()

    def note_started(self, name: str) -> None:
        """Note that this one has started."""
        self._names.remove(name)
        self._write()

    def finish(self) -> None:
        """Note that everything has started."""
        self.file.unlink(missing_ok=True)

    def _write(self) -> None:
        scratch = self.file.with_suffix(".new")
        scratch.write_text("".join(f"{name}\n" for name in self._names))
        scratch.replace(self.file)


def read_starting(file: Path | None) -> list[str] | None:
    """Return what is still starting; None if the start is over."""
    try:
        return None if file is None else file.read_text().split()
    except FileNotFoundError:
        return None
