"""Compressed files, by the ends of their names. To add a kind, add a line to `_DECOMPRESS`."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

_XZ_BYTES: Final = 128 << 20
"""For a dictionary of 64 MiB, that of `xz -9`. A header of a few bytes may ask for 4 GiB."""


class _Xz(io.RawIOBase):
    """Python's own reader of xz has no limit for memory."""

    _PART: ClassVar[int] = 1 << 16

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._begin()

    def _begin(self) -> None:
        self._at = 0
        self._decompressor = lzma.LZMADecompressor(memlimit=_XZ_BYTES)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        target = offset if whence == io.SEEK_SET else self._at + offset
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the size is unknown")
        if target < self._at:
            self._stream.seek(0)
            self._begin()
        while self._at < target and self._some(min(target - self._at, 1 << 20)):
            pass
        return self._at

    def readinto(self, buffer: Any) -> int:
        part = self._some(len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def _some(self, most: int) -> bytes:
        """Return at most so many bytes; none only at the end."""
        while True:
            if self._decompressor.eof:
                rest = (self._decompressor.unused_data or self._stream.read(self._PART)).lstrip(b"\0")  # padding
                if not rest:
                    return b""
                self._decompressor = lzma.LZMADecompressor(memlimit=_XZ_BYTES)
            elif self._decompressor.needs_input:
                rest = self._stream.read(self._PART)
                if not rest:
                    raise EOFError("the compressed file ends too early")
            else:
                rest = b""
            part = self._decompressor.decompress(rest, most)
            if part:
                self._at += len(part)
                return part


def _open_xz(stream: Any) -> Any:
    return io.BufferedReader(_Xz(stream))


_DECOMPRESS: Final[Mapping[str, Callable[[Any], Any]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": _open_xz}

BROKEN: Final = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
"""What reading of a broken file raises."""


def decompress(name: str, stream: Any) -> Any:
    """Return the stream of a file's content; the given stream if the name is not that of a compressed file."""
    opened = _DECOMPRESS.get(f".{name.rpartition('.')[2]}")
    return stream if opened is None else opened(stream)
