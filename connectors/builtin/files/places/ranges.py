"""An object of a store as a file: its bytes are requested in blocks, all of the same content."""

import io
from collections.abc import Callable
from typing import Any, Final

from ringfence.connectors.builtin.files.places.base import OpenedFile

_BLOCK_BYTES: Final = 8 << 20

Fetch = Callable[[int, int], bytes]
"""fetch(start, count): returns these bytes of the content that was opened. Raises `FileChanged` and OSError."""


class OpenedObject(OpenedFile):
    """Each block is requested with the ETag, so there is nothing to check afterwards."""

    def __init__(self, size: int, fetch: Fetch) -> None:
        self.stream: Any = io.BufferedReader(_Blocks(size, fetch), _BLOCK_BYTES)

    def check(self) -> None:
        pass

    def close(self) -> None:
        self.stream.close()


class _Blocks(io.RawIOBase):
    def __init__(self, size: int, fetch: Fetch) -> None:
        self._size, self._fetch, self._at = size, fetch, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        data = self._fetch(self._at, count)
        if len(data) != count:
            raise OSError(f"{count} bytes were requested, and {len(data)} received")
        buffer[:count] = data
        self._at += count
        return count
