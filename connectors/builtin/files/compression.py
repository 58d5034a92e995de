"""Compressed files, by the ends of their names: gzip, bzip2, xz and Zstandard, UTF-16 and UTF-32, and zip archives.

The streams here deliver everything before a broken place and raise one of `BROKEN` only then.
"""

import bz2
import codecs
import io
import logging
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from ringfence.connectors.api import ConnectorError

logger = logging.getLogger(__name__)

_XZ_BYTES: Final = 128 << 20
"""For a dictionary of 64 MiB, that of `xz -9`. A header of a few bytes may ask for 4 GiB."""
_ZSTD_LOG: Final = 27
"""128 MiB, the window that `zstd -d` reads without being asked to. A header may ask for 2 GiB."""
_MOST_DIRECTORY: Final = 8 << 20
"""Of the list of an archive's members, which is kept in memory: some 80,000 names."""


class BrokenFile(Exception):
    """The compressed file cannot be read on. The message says why, without any data."""


BROKEN: Final = (BrokenFile, EOFError)
"""What reading of a broken file raises."""


class _Decompressor(Protocol):
    """What Python's modules for compression have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _Kind(NamedTuple):
    """A kind of compression. start: how each part of a file begins; errors: of the decompressor."""

    name: str
    starts: tuple[bytes, ...]
    open: Callable[[], _Decompressor]
    errors: tuple[type[Exception], ...]


def _gzip() -> _Kind:
    return _Kind("gzip", (b"\x1f\x8b",), _Gzip, (zlib.error,))


def _bzip2() -> _Kind:
    return _Kind("bzip2", (b"BZh",), bz2.BZ2Decompressor, (OSError, ValueError))


def _xz() -> _Kind:
    start = b"\xfd7zXZ\0"
    return _Kind("xz", (start,), lambda: lzma.LZMADecompressor(memlimit=_XZ_BYTES), (lzma.LZMAError,))


def _zstd() -> _Kind:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        raise ConnectorError(
            "Files compressed with Zstandard need backports.zstd, which is not installed here: "
            "pip install 'ringfence[files]' on every worker."
        ) from error
    window = {int(zstd.DecompressionParameter.window_log_max): _ZSTD_LOG}
    skippable = tuple(bytes([number]) + b"\x2a\x4d\x18" for number in range(0x50, 0x60))
    starts = (b"\x28\xb5\x2f\xfd", *skippable)
    return _Kind("zstd", starts, lambda: zstd.ZstdDecompressor(options=window), (zstd.ZstdError,))


_KINDS: Final[Mapping[str, Callable[[], _Kind]]] = {
    "gz": _gzip,
    "bz2": _bzip2,
    "xz": _xz,
    "zst": _zstd,
    "zstd": _zstd,
}


class _Forward(io.RawIOBase):
    """A stream that is made as it is read. Going back makes it again from the beginning."""

    def __init__(self) -> None:
        self._at = 0

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
            self._begin()
            self._at = 0
        while self._at < target and self.read(min(target - self._at, 1 << 20)):
            pass
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes; none only at the end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        part = self._some(size) if size else b""
        self._at += len(part)
        return part

    def _begin(self) -> None:
        raise NotImplementedError

    def _some(self, most: int) -> bytes:
        raise NotImplementedError


class _Decompressed(_Forward):
    """The content of a file of one or more compressed parts, with or without zeros in between."""

    _PART: ClassVar[int] = 1 << 16

    def __init__(self, name: str, stream: Any, kind: _Kind) -> None:
        super().__init__()
        self._name = name
        self._stream = stream
        self._kind = kind
        self._open()

    def _begin(self) -> None:
        self._stream.seek(0)
        self._open()

    def _open(self) -> None:
        self._rest = b""
        """Bytes that were read and not decompressed: the beginning of the next part."""
        self._ended = False
        self._decompressor: _Decompressor | None = None
        self._first = True

    def _some(self, most: int) -> bytes:
        while not self._ended:
            if self._decompressor is None and not self._open_part():
                break
            assert self._decompressor is not None
            part = self._decompress(self._decompressor, most)
            if self._decompressor.eof:
                self._rest, self._decompressor = self._decompressor.unused_data, None
            if part:
                return part
        return b""

    def _decompress(self, decompressor: _Decompressor, most: int) -> bytes:
        data = b""
        if decompressor.needs_input:
            data, self._rest = self._rest or self._stream.read(self._PART), b""
            if not data:
                raise BrokenFile("the compressed file ends too early")
        try:
            return decompressor.decompress(data, most)
        except self._kind.errors as error:
            raise BrokenFile(f"the compressed file is broken: {error}") from error

    def _open_part(self) -> bool:
        """Begin with the next part, and return whether there is one."""
        while not (rest := self._rest.lstrip(b"\0")):  # padding, as tapes have it
            self._rest = self._stream.read(self._PART)
            if not self._rest:
                self._ended = True
                return False
        longest = max(map(len, self._kind.starts))
        while len(rest) < longest and (more := self._stream.read(self._PART)):
            rest += more
        self._rest = rest
        if not rest.startswith(self._kind.starts):
            if self._first:
                raise BrokenFile(f"it is not compressed with {self._kind.name}")
            logger.warning("File %s: trailing garbage after the compressed data is ignored", self._name)
            self._ended = True
            return False
        self._decompressor, self._first = self._kind.open(), False
        return True


class _Transcoded(_Forward):
    """A text of UTF-16 or UTF-32 as UTF-8. What is not text in it becomes bytes that are not UTF-8."""

    _PART: ClassVar[int] = 1 << 16

    def __init__(self, stream: Any, encoding: str) -> None:
        super().__init__()
        self._stream = stream
        self._encoding = encoding
        self._open()

    def _begin(self) -> None:
        self._stream.seek(0)
        self._open()

    def _open(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self._encoding)(errors=_INVALID)
        self._ready = memoryview(b"")
        self._ended = False

    def _some(self, most: int) -> bytes:
        while not self._ready and not self._ended:
            data = self._stream.read(self._PART)
            self._ended = not data
            try:
                text = self._decoder.decode(data, final=self._ended)
            except UnicodeError as error:
                name = self._encoding
                raise BrokenFile(f"it does not begin as {name} does. Set encoding to {name}-le or {name}-be") from error
            self._ready = memoryview(text.encode("utf-8", "surrogatepass"))
        part, self._ready = self._ready[:most], self._ready[most:]
        return bytes(part)


def _mark_invalid(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


_INVALID: Final = "ringfence.invalid"
codecs.register_error(_INVALID, _mark_invalid)


class _Member(_Forward):
    """A member of a zip archive."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        super().__init__()
        self._archive = archive
        self._info = info
        self._begin()

    def _begin(self) -> None:
        if self._info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
            raise BrokenFile(f"its member {self._info.filename} is not compressed with deflate or bzip2")
        if self._info.flag_bits & 1:
            raise BrokenFile(f"its member {self._info.filename} is encrypted")
        try:
            self._stream: Any = self._archive.open(self._info)
        except _ZIP_ERRORS as error:
            raise BrokenFile(f"its member {self._info.filename} is broken: {error}") from error

    def _some(self, most: int) -> bytes:
        try:
            return bytes(self._stream.read1(min(most, 1 << 16)))
        except _ZIP_ERRORS as error:
            raise BrokenFile(f"its member {self._info.filename} is broken: {error}") from error


_ZIP_ERRORS: Final = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)


class _Small:
    """A stream of which no more is read at once than the list of an archive's members may have."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if size > _MOST_DIRECTORY:
            raise BrokenFile("it is an archive of too many files")
        return bytes(self._stream.read(size))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def seekable(self) -> bool:
        return True


class Content(NamedTuple):
    """A part of a file that is a file by itself. size: its bytes; None if they must be counted by reading it."""

    size: int | None
    open: Callable[[], Any]


def contents(name: str, stream: Any, encoding: str | None = None) -> Sequence[Content]:
    """Return what is in a file: the members of an archive, in its order, without hidden ones; otherwise one.

    encoding: of a text in UTF-16 or UTF-32, which becomes UTF-8. `open` returns a stream; both raise one of `BROKEN`.
    """
    suffix = name.rpartition(".")[2].lower()
    if suffix == "zip":
        return list(_members(stream, encoding))
    kind = _KINDS.get(suffix)
    if kind is None:
        return [Content(None, lambda: _transcode(stream, encoding))]
    return [Content(None, lambda: _transcode(_Decompressed(name, stream, kind()), encoding))]


def count_bytes(stream: Any) -> int:
    """Read a stream to its end, and return its size."""
    size = 0
    while part := stream.read(1 << 20):
        size += len(part)
    return size


def _members(stream: Any, encoding: str | None) -> Iterator[Content]:
    try:
        archive = zipfile.ZipFile(_Small(stream))
    except _ZIP_ERRORS as error:
        raise BrokenFile(f"it is not a zip archive: {error}") from error
    for info in archive.infolist():
        if not info.filename:  # `is_dir` looks at its last character
            raise BrokenFile("it is a zip archive with a member that has no name")
        folders = info.filename.split("/")
        if not info.is_dir() and folders[0] != "__MACOSX" and not any(each.startswith(".") for each in folders):
            yield Content(info.file_size if encoding is None else None, _opener(archive, info, encoding))


def _opener(archive: zipfile.ZipFile, info: zipfile.ZipInfo, encoding: str | None) -> Callable[[], Any]:
    return lambda: _transcode(_Member(archive, info), encoding)


def _transcode(stream: Any, encoding: str | None) -> Any:
    return stream if encoding is None else _Transcoded(stream, encoding)
