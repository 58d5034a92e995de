"""Checks Avro's bytes with their schema before fastavro decodes them. Pure.

fastavro recurses in C without a guard, so a value of 8 KB with a recursive schema ends the process, and 12 bytes may
claim an array of 200 million nulls. `Bounds` knows from the schema alone whether a value can be larger than its bytes,
and walks through the bytes of those that can.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

DEEPEST: Final = 100
"""How deep records, arrays and maps may be nested, in a schema and in a value."""
MOST_ELEMENTS: Final = 100_000
"""The values in a value that is shown: fields, elements of arrays and maps, however few bytes they take."""
_DEEPEST_JSON: Final = 4 * DEEPEST
"""A record in a record is four levels of JSON: an object, the list of its fields, a field, and its type."""
_MOST_TYPES: Final = 20_000
_HUGE: Final = 1 << 62


class BeyondBounds(ValueError):
    """The schema or value is not one that may be decoded. The message is for users, and contains no data."""


class _Node:
    """A type. parts: of a record or union, or the element of an array or map. smallest: the fewest bytes of a value,
    `_HUGE` if there is no end. free: the most values in one value that take no bytes of their own.
    """

    __slots__ = ("depth", "free", "kind", "parts", "size", "smallest")

    def __init__(self, kind: str, size: int = 0) -> None:
        self.kind = kind
        self.size = size
        self.parts: list[_Node] = []
        self.smallest = 0
        self.free = 0
        self.depth = 0


_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS: Final = {"int": "long", "long": "long", "enum": "long", "string": "bytes", "bytes": "bytes"}


def check_json(document: object) -> None:
    """Refuse a schema that is nested too deeply for fastavro to parse. Raises `BeyondBounds`."""
    level: list[object] = [document]
    for _ in range(_DEEPEST_JSON):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise BeyondBounds("its schema is nested too deeply")


class Bounds:
    """The bounds of one schema.

    recursive: a value may be nested without end. smallest: the fewest bytes of a value. most_per_byte: the most values
    that a byte can stand for; None if there is no such number: an array's elements may take no bytes.
    """

    def __init__(self, schema: Any, types: Mapping[str, Any]) -> None:
        """schema: as `fastavro.parse_schema` returns it; types: the schemas it collected. Raises `BeyondBounds`."""
        self._types = types
        self._nodes: dict[str, _Node] = {}
        self._all: list[_Node] = []
        self._open: set[str] = set()
        self.recursive = False
        self._root = self._node(schema, 0)
        self._find_smallest()
        self.smallest = self._root.smallest
        if self.smallest >= _HUGE:
            raise BeyondBounds("its schema contains itself without end")
        weightless = any(node.kind == "array" and not node.parts[0].smallest for node in self._all)
        self.most_per_byte = None if self.recursive else self._find_free()
        if weightless:
            self.most_per_byte = None

    def check(self, data: bytes) -> None:
        """Check that the bytes begin with a value that may be decoded. Raises `BeyondBounds`."""
        per_byte = self.most_per_byte
        if per_byte is None or (len(data) + 1) * per_byte > MOST_ELEMENTS:
            self.walk(data, 0, MOST_ELEMENTS)

    def walk(self, data: bytes, at: int, most: int) -> int:  # noqa: C901 - a case for each type
        """Return where the value that begins at `at` ends. most: the values in it. Raises `BeyondBounds`."""
        elements, end = 0, len(data)
        todo: list[tuple[_Node, int, int]] = [(self._root, 1, 0)]
        while todo:
            node, count, depth = todo.pop()
            if count > 1:
                todo.append((node, count - 1, depth))
            kind, size = node.kind, node.size
            elements += 1
            if elements > most:
                raise BeyondBounds(f"it consists of more than {most:,} values")
            if kind == "sized":
                at += size
            elif kind == "long":
                _, at = _long(data, at)
            elif kind == "bytes":
                length, at = _long(data, at)
                if length < 0:
                    raise BeyondBounds("it has a negative length")
                at += length
            elif kind == "union":
                index, at = _long(data, at)
                if not 0 <= index < len(node.parts):
                    raise BeyondBounds("it has a branch of a union that does not exist")
                todo.append((node.parts[index], 1, depth))
                elements -= 1
            elif kind == "entry":
                todo += [(part, 1, depth) for part in reversed(node.parts)]
                elements -= 1
            else:
                if depth >= DEEPEST:
                    raise BeyondBounds(f"it is nested more than {DEEPEST} levels deep")
                if kind == "record":
                    todo += [(part, 1, depth + 1) for part in reversed(node.parts)]
                else:
                    count, at = _long(data, at)
                    if count < 0:
                        _, at = _long(data, at)
                        count = -count
                    if count:
                        if elements + count > most:
                            raise BeyondBounds(f"it consists of more than {most:,} values")
                        todo.append((node, 1, depth))  # the next block
                        elements -= 1
                        todo.append((node.parts[0], count, depth + 1))
            if at > end:
                raise BeyondBounds("it ends too early")
        return at

    def _node(self, schema: Any, depth: int) -> _Node:
        if depth > 2 * DEEPEST or len(self._all) > _MOST_TYPES:
            raise BeyondBounds("its schema is nested too deeply, or has too many types")
        if isinstance(schema, list):
            return self._of(_Node("union"), schema, depth)
        if isinstance(schema, dict):
            kind = schema.get("type")
            return self._node(kind, depth) if isinstance(kind, dict | list) else self._make(str(kind), schema, depth)
        return self._make(str(schema), {}, depth)

    def _make(self, kind: str, schema: Mapping[str, Any], depth: int) -> _Node:
        if kind in _SIZES:
            return self._of(_Node("sized", _SIZES[kind]), (), depth)
        if kind in _VARINTS:
            return self._of(_Node(_VARINTS[kind]), (), depth)
        if kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or not 0 <= size < _HUGE:
                raise BeyondBounds("its schema has a fixed type without a size")
            return self._of(_Node("sized", size), (), depth)
        if kind in ("record", "error"):
            name = str(schema.get("name"))
            node = self._nodes[name] = _Node("record")
            self._open.add(name)
            self._of(node, [field["type"] for field in schema["fields"]], depth)
            self._open.discard(name)
            return node
        if kind in ("array", "map"):
            node = self._of(_Node("array"), (), depth)
            value = self._node(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "map":
                entry = self._of(_Node("entry"), (), depth)
                entry.parts = [self._make("string", {}, depth), value]
                value = entry
            node.parts = [value]
            return node
        return self._named_node(kind, depth)

    def _named_node(self, name: str, depth: int) -> _Node:
        if name in self._open:
            self.recursive = True
        node = self._nodes.get(name)
        if node is None:
            if name not in self._types:
                raise BeyondBounds("its schema has a type that it does not define")
            node = self._nodes[name] = self._node(self._types[name], depth)
        return node

    def _of(self, node: _Node, parts: Any, depth: int) -> _Node:
        self._all.append(node)
        node.parts = [self._node(part, depth + 1) for part in parts]
        return node

    def _find_smallest(self) -> None:
        """Set each type's fewest bytes: the least fixed point, from above."""
        for node in self._all:
            node.smallest = _HUGE

        def lower(node: _Node) -> bool:
            before, node.smallest = node.smallest, min(_HUGE, _smallest(node))
            return node.smallest < before

        self._repeat(lower)

    def _find_free(self) -> int:
        """Return the most values that come with a byte, in a schema without recursion."""

        def add(node: _Node) -> bool:
            before = node.free, node.depth
            inner = max((part.depth for part in node.parts), default=0)
            node.depth = inner + (node.kind in ("record", "array"))
            node.free = min(_HUGE, _free(node))
            return (node.free, node.depth) != before

        self._repeat(add)
        if self._root.depth > DEEPEST:
            raise BeyondBounds("its schema is nested too deeply")
        return 1 + max(node.free for node in self._all)

    def _repeat(self, change: Callable[[_Node], bool]) -> None:
        """Apply the function to all types until it changes none. A round carries a change up by a level or more."""
        for _ in range(3 * DEEPEST):
            if not sum(map(change, reversed(self._all))):
                return
        raise BeyondBounds("its schema is nested too deeply")


def _smallest(node: _Node) -> int:
    if node.kind in ("record", "entry"):
        return sum(part.smallest for part in node.parts)
    if node.kind == "union":
        return 1 + min((part.smallest for part in node.parts), default=_HUGE)
    return node.size if node.kind == "sized" else 1


def _free(node: _Node) -> int:
    if node.kind in ("record", "entry"):
        return 1 + sum(part.free for part in node.parts)
    if node.kind == "union":
        return max((part.free for part in node.parts), default=0)
    return int(node.kind == "sized" and not node.size)


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise BeyondBounds("it ends too early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise BeyondBounds("it has a number of more than 64 bits")
