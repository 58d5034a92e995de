"""Reads Avro's object container files with bounds, for fastavro.

fastavro believes what a file says about itself: a block of a few bytes may claim any number of records, and decompress
to any size. `BoundedFile` passes a file on to it block by block, checked and without compression; if asked to, without
those that are damaged, which `BlockReader` tells of.
"""

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple

from ringfence.connectors.sdk.avro.bounds import BeyondBounds, Bounds, check_json

ERRORS: Final = (
    ValueError,
    EOFError,
    LookupError,
    ArithmeticError,
    TypeError,
    AttributeError,
    RecursionError,
    zlib.error,
    lzma.LZMAError,
)
"""What fastavro raises for bytes and schemas that do not fit."""
MOST_ELEMENTS: Final = 1_000_000
"""The values in a record: fields, elements of arrays and maps, however few bytes they take."""
MOST_BYTES: Final = 64 << 20
"""The size of a block, compressed or not. Writers begin a new one after some kilobytes or megabytes."""
_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_MOST_ENTRIES: Final = 1000
_MOST_HEADER: Final = 8 << 20
_MOST_DAMAGES: Final = 100
"""Of a file. Each may cost reading of `MOST_BYTES`."""


def open_blocks(file: BinaryIO | Any) -> tuple[Any, Iterator[tuple[int, Iterator[Any]]]]:
    """Return the schema of a container file, and its blocks: the count of records in each, and these, which are decoded
    as they are taken. Both raise one of `ERRORS`.
    """
    import fastavro

    bounded = BoundedFile(file)
    blocks = fastavro.block_reader(bounded)  # type: ignore[arg-type] # it only calls read
    return blocks.writer_schema, ((block.num_records, _records(block, bounded)) for block in blocks)


class Damage(NamedTuple):
    """What cannot be read of a file that goes on behind it. start, end: in bytes."""

    start: int
    end: int
    reason: str


class Block(NamedTuple):
    """Some records. records: decoded as they are taken, which raises one of `ERRORS`, and for a text that is not UTF-8
    UnicodeDecodeError; lenient: the same from the first one on, with bytes that are not UTF-8 as `surrogateescape`
    writes them.
    """

    length: int
    records: Iterator[Any]
    lenient: Callable[[], Iterator[Any]]


class BlockReader:
    """The blocks of a file whose values are those of Avro's own types, without regard to logical types.

    declared: the file's schema, with its logical types, as `fastavro.parse_schema` returns it.
    """

    def __init__(self, file: BinaryIO | Any) -> None:
        """Raises one of `ERRORS`."""
        import fastavro

        self._file = BoundedFile(file, of_users=True)
        self.declared = self._file.declared
        self._blocks = fastavro.block_reader(self._file)  # type: ignore[arg-type] # it only calls read

    def __iter__(self) -> Iterator[Block | Damage]:
        """Yield blocks and damages in the order of the file. Raises one of `ERRORS` if it cannot be read on."""
        file = self._file
        while True:
            block = next(self._blocks, None)
            yield from file.damages
            file.damages.clear()
            if block is None:
                return
            yield Block(block.num_records, _records(block, file), partial(_lenient_records, block, file))


class BoundedFile:
    """The file as a container without compression."""

    def __init__(self, file: BinaryIO | Any, *, of_users: bool = False) -> None:
        """of_users: leave out blocks that are damaged, and logical types."""
        self._file = file
        self._lenient = of_users
        self.damages: list[Damage] = []
        self._damages = 0
        meta = self._read_header()
        self._codec = meta.pop("avro.codec", b"null").decode()
        document = json.loads(meta["avro.schema"])
        check_json(document)
        types: dict[str, Any] = {}
        self.declared = self.schema = _parse(document, types)
        if of_users:
            types.clear()
            document = _without_logical_types(document)
            meta["avro.schema"] = json.dumps(document).encode()
            self.schema = _parse(document, types)
        self.bounds = Bounds(self.schema, types)
        if self.bounds.recursive:
            raise BeyondBounds("its schema contains itself, which Kafka Connect's schemas cannot")
        header = [_MAGIC, _encode(1), _text(b"avro.schema"), _text(meta["avro.schema"]), b"\0", self._sync]
        self._ready = io.BytesIO(b"".join(header))

    def read(self, size: int = -1) -> bytes:
        part = self._ready.read(size)
        if not part and size:
            self._ready = io.BytesIO(self._read_sound_block() if self._lenient else self._read_block())
            part = self._ready.read(size)
        return part

    def tell(self) -> int:
        """Return nothing useful: fastavro keeps it in its blocks, where nobody reads it."""
        return 0

    def _read_header(self) -> dict[str, bytes]:
        if self._exactly(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as one")
        meta: dict[str, bytes] = {}
        left = _MOST_HEADER
        while count := self._long():
            if count < 0:
                count = -count
                self._long()
            if len(meta) + count > _MOST_ENTRIES:
                raise BeyondBounds("its header has too many entries")
            for _ in range(count):
                key, value = self._bytes(left), self._bytes(left)
                left -= len(key) + len(value)
                meta[key.decode()] = value
        self._sync = self._exactly(_SYNC_BYTES)
        return meta

    def _read_sound_block(self) -> bytes:
        """Return the next block that can be read; nothing at the end."""
        while True:
            start = self._file.tell()
            try:
                frame = self._read_frame()
            except ERRORS as error:
                self._find_sync(start, error)
                self._add_damage(start, error)
                continue
            if frame is None:
                return b""
            try:
                return self._check(*frame)
            except ERRORS as error:
                self._add_damage(start, error)

    def _add_damage(self, start: int, error: Exception) -> None:
        self._damages += 1
        if self._damages > _MOST_DAMAGES:
            raise error
        self.damages.append(Damage(start, self._file.tell(), str(error)))

    def _find_sync(self, start: int, error: Exception) -> None:
        """Move behind the next marker that begins at a byte or later. Raises the error if there is none."""
        self._file.seek(start)
        data = b""
        while part := self._file.read(1 << 20):
            at = (data + part).find(self._sync)
            if at >= 0:
                self._file.seek(start + at + _SYNC_BYTES)
                return
            tail = (data + part)[-_SYNC_BYTES + 1 :]
            start += len(data) + len(part) - len(tail)
            data = tail
        raise error

    def _read_block(self) -> bytes:
        """Return the next block; nothing at the end."""
        frame = self._read_frame()
        return b"" if frame is None else self._check(*frame)

    def _read_frame(self) -> tuple[int, bytes] | None:
        """Return the count of records in the next block, and its bytes; None at the end."""
        first = self._file.read(1)
        if not first:
            return None
        count, data = self._long(first), self._bytes(MOST_BYTES)
        if self._exactly(_SYNC_BYTES) != self._sync:
            raise ValueError("a block does not end where it says")
        return count, data

    def _check(self, count: int, data: bytes) -> bytes:
        """Return a block without compression."""
        data = _decompress(self._codec, data)
        smallest = self.bounds.smallest
        if count < 0 or count > (len(data) // smallest if smallest else MOST_ELEMENTS):
            raise BeyondBounds("a block claims more records than it has bytes for")
        return b"".join((_encode(count), _text(data), self._sync))

    def _bytes(self, most: int) -> bytes:
        size = self._long()
        if not 0 <= size <= most:
            raise BeyondBounds(f"a part of it claims to have {size:,} bytes")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._file.read(min(size, 1 << 20))  # not the size that is only claimed
            if not part:
                raise ValueError("it ends too early")  # an EOFError would be the end of the file for fastavro
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _long(self, first: bytes = b"") -> int:
        value = shift = 0
        while True:
            byte = (first or self._exactly(1))[0]
            first = b""
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise ValueError("it has a number of more than 64 bits")


def _records(block: Any, file: BoundedFile) -> Iterator[Any]:
    """Yield the records of a block. One that may become more than `MOST_ELEMENTS` is checked before it is decoded."""
    bounds, schema = file.bounds, file.schema
    per_byte = bounds.most_per_byte
    size = block.bytes_.getbuffer().nbytes
    if per_byte is not None and (size + 1) * per_byte <= MOST_ELEMENTS:
        yield from block
        return
    import fastavro

    window = 0 if per_byte is None else MOST_ELEMENTS // per_byte
    whole = block.bytes_.getvalue()
    at = 0
    part = io.BytesIO()
    for _ in range(block.num_records):
        start = part.tell()
        try:
            record = fastavro.schemaless_reader(part, schema, None)
        except ERRORS:  # the part ends within the record, or the record is broken
            at += start
            end = bounds.walk(whole, at, MOST_ELEMENTS)
            part = io.BytesIO(whole[at : max(end, at + window)])
            record = fastavro.schemaless_reader(part, schema, None)
        yield record


def _lenient_records(block: Any, file: BoundedFile) -> Iterator[Any]:
    import fastavro

    whole, at = block.bytes_.getvalue(), 0
    for _ in range(block.num_records):
        end = file.bounds.walk(whole, at, MOST_ELEMENTS)
        part = io.BytesIO(whole[at:end])
        yield fastavro.schemaless_reader(part, file.schema, None, handle_unicode_errors="surrogateescape")
        at = end


def _parse(document: Any, types: dict[str, Any]) -> Any:
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        return fastavro.parse_schema(document, named_schemas=types)
    except (SchemaParseException, UnknownType) as error:
        raise ValueError("its schema is not one of Avro's") from error


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    same = {key: each for key, each in schema.items() if key != "logicalType"}
    for key in ("type", "items", "values"):
        if key in same:
            same[key] = _without_logical_types(same[key])
    if isinstance(same.get("fields"), list):
        same["fields"] = [_without_logical_types(field) for field in same["fields"]]
    return same


def _decompress(codec: str, data: bytes) -> bytes:
    if codec == "null":
        return data
    if codec == "deflate":
        return _all_of(zlib.decompressobj(-15).decompress(data, MOST_BYTES + 1))
    if codec == "bzip2":
        try:
            return _all_of(bz2.BZ2Decompressor().decompress(data, MOST_BYTES + 1))
        except OSError as error:  # as a place that cannot be read
            raise ValueError("a block is not compressed with bzip2") from error
    if codec == "xz":
        return _all_of(lzma.LZMADecompressor(memlimit=MOST_BYTES * 2).decompress(data, MOST_BYTES + 1))
    return _decompress_with_arrow(codec, data)


def _decompress_with_arrow(codec: str, data: bytes) -> bytes:
    try:
        import pyarrow
    except ImportError as error:
        raise ValueError(f"its codec {codec} needs pyarrow") from error
    if codec == "zstandard":
        try:
            with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd") as stream:
                return _all_of(stream.read(MOST_BYTES + 1))
        except OSError as error:
            raise ValueError("a block is not compressed with zstandard") from error
    if codec == "snappy":
        data = data[:-4]  # without the checksum
        size, shift = 0, 0
        for byte in data[:5]:
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return _decompress_declared(data, size, "snappy")
    if codec == "lz4":
        return _decompress_declared(data[4:], int.from_bytes(data[:4], "little"), "lz4_raw")
    raise ValueError(f"its codec {codec} is unknown")


def _decompress_declared(data: bytes, size: int, codec: str) -> bytes:
    import pyarrow

    if size > MOST_BYTES:
        raise BeyondBounds(f"a block claims to have {size:,} bytes")
    try:
        return bytes(pyarrow.decompress(data, decompressed_size=size, codec=codec, asbytes=True))
    except OSError as error:
        raise ValueError(f"a block is not compressed with {codec}") from error


def _all_of(data: bytes) -> bytes:
    if len(data) > MOST_BYTES:
        raise BeyondBounds(f"a block decompresses to more than {MOST_BYTES:,} bytes")
    return data


def _text(data: bytes) -> bytes:
    return _encode(len(data)) + data


def _encode(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
