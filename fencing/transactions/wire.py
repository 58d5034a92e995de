"""Reads and writes the primitive types of Kafka's protocol, in its flexible form (KIP-482). Pure."""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

NO_TAGS: Final = b"\0"
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_UUID_BYTES: Final = 16


class MalformedResponse(Exception):
    """A response is not what its version promises."""


def uvarint(number: int) -> bytes:
    """Return an unsigned number of variable length."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def i16(number: int) -> bytes:
    return _I16.pack(number)


def i32(number: int) -> bytes:
    return _I32.pack(number)


def i64(number: int) -> bytes:
    return _I64.pack(number)


def boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def string(text: str | None) -> bytes:
    """Return a compact string, which may be null."""
    if text is None:
        return b"\0"
    data = text.encode()
    return uvarint(len(data) + 1) + data


def data(content: bytes) -> bytes:
    """Return compact bytes."""
    return uvarint(len(content) + 1) + content


def array(items: list[bytes]) -> bytes:
    """Return a compact array of encoded items."""
    return uvarint(len(items) + 1) + b"".join(items)


def classic_string(text: str) -> bytes:
    """Return a string as versions without flexible fields have it."""
    encoded = text.encode()
    return _I16.pack(len(encoded)) + encoded


class Reader:
    """Reads a response from its start. Raises `MalformedResponse` if it ends too early."""

    __slots__ = ("_at", "_data")

    def __init__(self, content: bytes, at: int = 0) -> None:
        self._data = content
        self._at = at

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def _unpack(self, form: struct.Struct) -> int:
        try:
            value: int = form.unpack_from(self._data, self._at)[0]
        except struct.error as error:
            raise MalformedResponse("it ends too early") from error
        self._at += form.size
        return value

    def fields(self, form: struct.Struct) -> tuple[Any, ...]:
        """Return several numbers at once."""
        try:
            values = form.unpack_from(self._data, self._at)
        except struct.error as error:
            raise MalformedResponse("it ends too early") from error
        self._at += form.size
        return values

    def i16(self) -> int:
        return self._unpack(_I16)

    def i32(self) -> int:
        return self._unpack(_I32)

    def i64(self) -> int:
        return self._unpack(_I64)

    def raw(self, size: int) -> bytes:
        content = self._data[self._at : self._at + size]
        if size < 0 or len(content) < size:
            raise MalformedResponse("it ends too early")
        self._at += size
        return content

    def boolean(self) -> bool:
        return self.raw(1) != b"\0"

    def uuid(self) -> bytes:
        return self.raw(_UUID_BYTES)

    def uvarint(self) -> int:
        at = self._at
        if at < len(self._data) and (first := self._data[at]) < 0x80:  # nearly all are of one byte
            self._at = at + 1
            return first
        value = shift = 0
        while shift < 35:
            (byte,) = self.raw(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise MalformedResponse("a number is too long")

    def string(self) -> str | None:
        size = self.uvarint()
        return None if size == 0 else self.raw(size - 1).decode(errors="replace")

    def text(self) -> str:
        """Return a string that is never null."""
        return self.string() or ""

    def data(self) -> bytes | None:
        size = self.uvarint()
        return None if size == 0 else self.raw(size - 1)

    def view(self) -> memoryview:
        """Return what `data` returns, empty for null, without a copy."""
        size = max(0, self.uvarint() - 1)
        if size > self.left:
            raise MalformedResponse("it ends too early")
        self._at += size
        return memoryview(self._data)[self._at - size : self._at]

    def array(self, read: Callable[[], _T]) -> list[_T]:
        """Return the items of an array, [] for null. Each is read by `read`."""
        size = self.uvarint()
        if size - 1 > self.left:
            raise MalformedResponse("an array is longer than the response")
        return [read() for _ in range(size - 1)]

    def i32s(self) -> list[int]:
        return self.array(self.i32)

    def tags(self) -> dict[int, bytes]:
        """Return the tagged fields."""
        at = self._at
        if self._data[at : at + 1] == NO_TAGS:  # as nearly always
            self._at = at + 1
            return {}
        fields: dict[int, bytes] = {}
        for _ in range(self.uvarint()):
            number = self.uvarint()
            fields[number] = self.raw(self.uvarint())
        return fields

    def classic_string(self) -> str | None:
        size = self.i16()
        return None if size < 0 else self.raw(size).decode(errors="replace")
