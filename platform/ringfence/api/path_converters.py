"""Connector names in paths. Any name works, even with `/` and `%`, if the client percent-encodes it.

`PathMiddleware` leaves exactly two escapes in each segment, `%2F` and `%25`; the converter decodes them. Use
`Connector.path` to make URLs, not `reverse`, which would escape the escapes.
"""

import unicodedata
from urllib.parse import unquote


def segments(raw_path: str) -> str:
    """Decode each segment of an encoded path, except for slashes inside segments."""
    parts = (unquote(part).replace("%", "%25").replace("/", "%2F") for part in raw_path.split("/"))
    return "/".join(parts)


def decode_segment(segment: str) -> str:
    """Decode a name in a path that `segments` has returned."""
    return segment.replace("%2F", "/").replace("%25", "%")


def has_control(text: str) -> bool:
    return any(unicodedata.category(character) == "Cc" for character in text)


class NameConverter:
    """One segment, decoded. A name with control characters matches no route."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        name = decode_segment(value)
        if has_control(name):
            raise ValueError("a connector's name has no control characters")
        return name

    def to_url(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")
