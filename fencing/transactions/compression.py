"""The compression codecs of record batches, as Kafka's clients write them."""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import cramjam

_GZIP_WINDOW: Final = 31
"""zlib's largest window, with gzip's head and end."""
_SNAPPY_HEAD: Final = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK: Final = 32 * 1024
# The frame's magic number and descriptor: independent blocks (Kafka's reader takes no others) of at most 64 KiB, no
# checksums. The last byte is the descriptor's own checksum.
_LZ4_HEAD: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_END: Final = bytes(4)
_LZ4_STORED: Final = 0x80000000


@dataclass(frozen=True, slots=True)
class Codec:
    """number: its value in a batch's attributes."""

    number: int
    compress: Callable[[bytes, int | None], bytes]
    """Takes the data and a level, None for the default."""
    decompress: Callable[[bytes], bytes]


def _gzip(data: bytes, level: int | None) -> bytes:
    packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _snappy(data: bytes, _: int | None) -> bytes:
    """Return snappy-java's stream, as Java clients write it: blocks with their lengths."""
    parts = [_SNAPPY_HEAD]
    for start in range(0, len(data), _SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _open_snappy(data: bytes) -> bytes:
    if not data.startswith(_SNAPPY_HEAD[:8]):
        return bytes(cramjam.snappy.decompress_raw(data))
    parts, at = [], len(_SNAPPY_HEAD)
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        parts.append(bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + size])))
        at += 4 + size
    return b"".join(parts)


def _lz4(data: bytes, level: int | None) -> bytes:
    """Return a frame of LZ4. Its blocks are built here, since the library's own frames have dependent blocks."""
    parts = [_LZ4_HEAD]
    for start in range(0, len(data), _LZ4_BLOCK):
        block = data[start : start + _LZ4_BLOCK]
        packed = bytes(
            cramjam.lz4.compress_block(block, store_size=False)
            if level is None
            else cramjam.lz4.compress_block(block, mode="high_compression", compression=level, store_size=False)
        )
        if len(packed) < len(block):
            parts += (struct.pack("<I", len(packed)), packed)
        else:
            parts += (struct.pack("<I", len(block) | _LZ4_STORED), block)
    return b"".join((*parts, _LZ4_END))


def _open_lz4(data: bytes) -> bytes:
    return bytes(cramjam.lz4.decompress(data))


def _zstd(data: bytes, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, *(() if level is None else (level,))))


def _open_zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.decompress(data))


CODECS: Final = {
    "gzip": Codec(1, _gzip, lambda data: zlib.decompress(data, _GZIP_WINDOW)),
    "snappy": Codec(2, _snappy, _open_snappy),
    "lz4": Codec(3, _lz4, _open_lz4),
    "zstd": Codec(4, _zstd, _open_zstd),
}
BY_NUMBER: Final = {codec.number: codec for codec in CODECS.values()}
