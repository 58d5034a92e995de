"""Compressed files, by the ends of their names. To add a kind, add a line to `_DECOMPRESS`."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Mapping
from typing import Any, Final

_DECOMPRESS: Final[Mapping[str, Callable[[Any], Any]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

BROKEN: Final = (EOFError, gzip.BadGzipFile, lzma.LZMAError)
"""What reading of a broken file raises."""


def decompress(name: str, stream: Any) -> Any:
    """Return the stream of a file's content; the given stream if the name is not that of a compressed file."""
    opened = _DECOMPRESS.get(f".{name.rpartition('.')[2]}")
    return stream if opened is None else opened(stream)
