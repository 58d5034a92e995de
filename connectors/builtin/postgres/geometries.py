"""PostgreSQL's geometric types, with Debezium's schemas: structs with well-known binary (WKB) or coordinates.

Debezium's schemas of these types are optional, also for required columns; that of a point is not.
"""

import re
import struct
from collections.abc import Callable, Sequence
from typing import Final

from ringfence.connectors.api import Struct
from ringfence.connectors.api.schemas import BYTES, FLOAT64, INT32, STRING, mapping
from ringfence.connectors.api.schemas import struct as struct_of

POINT: Final = struct_of(
    {"x": FLOAT64, "y": FLOAT64, "wkb": BYTES.but(optional=True), "srid": INT32.but(optional=True)},
    "io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
LINE: Final = struct_of(
    {"a": FLOAT64, "b": FLOAT64, "c": FLOAT64},
    "io.debezium.data.geometry.Line",
    version=1,
    doc="Geometry (LINE)",
    optional=True,
)
CIRCLE: Final = struct_of(
    {"center": POINT, "radius": FLOAT64},
    "io.debezium.data.geometry.Circle",
    version=1,
    doc="Geometry (CIRCLE)",
    optional=True,
)
GEOMETRY: Final = struct_of(
    {"wkb": BYTES, "srid": INT32.but(optional=True), "extensions": mapping(STRING, STRING).but(optional=True)},
    "io.debezium.data.geometry.Geometry",
    version=2,
    doc="Geometry",
    optional=True,
)
_NUMBER: Final = re.compile(rb"[^\[\](){}<>,]+")
_LINE_STRING: Final = 2
_POLYGON: Final = 3
Points = Sequence[tuple[float, float]]
Read = Callable[[bytes], Struct]


def _numbers(raw: bytes) -> list[float]:
    return [float(number) for number in _NUMBER.findall(raw)]


def _points(raw: bytes) -> list[tuple[float, float]]:
    numbers = _numbers(raw)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _wkb(kind: int, points: Points) -> bytes:
    """Return a line string, or a polygon of one ring, in little-endian WKB."""
    rings = struct.pack("<I", 1) if kind == _POLYGON else b""
    coordinates = b"".join(struct.pack("<dd", *point) for point in points)
    return struct.pack("<BI", 1, kind) + rings + struct.pack("<I", len(points)) + coordinates


def _geometry(kind: int, points: Points, **extensions: str) -> Struct:
    return Struct.of(GEOMETRY, [_wkb(kind, points), None, extensions])


def read_point(raw: bytes) -> Struct:
    x, y = _numbers(raw)
    return Struct.of(POINT, [x, y, struct.pack("<BIdd", 1, 1, x, y), None])


def read_line(raw: bytes) -> Struct:
    return Struct.of(LINE, [*_numbers(raw)])


def read_circle(raw: bytes) -> Struct:
    x, y, radius = _numbers(raw)
    return Struct.of(CIRCLE, [read_point(b"(%r,%r)" % (x, y)), radius])


def read_segment(raw: bytes) -> Struct:
    return _geometry(_LINE_STRING, _points(raw), type="lseg")


def read_box(raw: bytes) -> Struct:
    (x, y), (other_x, other_y) = _points(raw)
    corners = [(x, y), (x, other_y), (other_x, other_y), (other_x, y), (x, y)]
    return _geometry(_POLYGON, corners, type="box")


def read_path(raw: bytes) -> Struct:
    closed = "false" if raw.startswith(b"[") else "true"
    return _geometry(_LINE_STRING, _points(raw), type="path", closed=closed)


def read_polygon(raw: bytes) -> Struct:
    points = _points(raw)
    return _geometry(_POLYGON, [*points, points[0]], type="polygon")


SHAPES: Final[dict[str, tuple[Read, Struct]]] = {
    "line": (read_line, read_line(b"{0,1,0}")),
    "circle": (read_circle, read_circle(b"<(0,0),0>")),
    "lseg": (read_segment, read_segment(b"[(0,0),(1,0)]")),
    "box": (read_box, read_box(b"(0,0),(1,1)")),
    "path": (read_path, _geometry(_LINE_STRING, [(0, 0), (1, 0)], type="path")),
    "polygon": (read_polygon, read_polygon(b"((0,0),(1,0),(0,1))")),
}
"""By type: the reader, and Debezium's value for an unknown one in a required column."""
