"""A folder of hostile files, read by FilesSource."""

import io
from collections.abc import Iterator

from ringfence.connectors.builtin.files.places import FileInfo, OpenedFile


class Folder:
    """A place with these files."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files
        self.opened: list[str] = []

    def list(self) -> Iterator[FileInfo]:
        return (FileInfo(name, "1", 0.0) for name in self._files)

    def open(self, file: FileInfo) -> OpenedFile:
        self.opened.append(file.name)
        stream = io.BytesIO(self._files[file.name])

        class Opened(OpenedFile):
            def __init__(self) -> None:
                self.stream = stream

            def check(self) -> None:
                pass

            def close(self) -> None:
                pass

        return Opened()


COMMIT = "_delta_log/00000000000000000000.json"
