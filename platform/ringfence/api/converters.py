"""Connector names in paths. Any name works, `/` and `%` included, as long as the client percent-encodes it.

`PathMiddleware` leaves exactly two escapes in each segment, `%2F` and `%25`; the converter takes them back. URLs are
made with `Connector.path`, not with `reverse`, which would escape the escapes.
"""

import unicodedata
from urllib.parse import unquote


def segments(raw_path: str) -> str:
    """A still encoded path with each segment decoded, but for the slashes inside of segments."""
    parts = (unquote(part).replace("%", "%25").replace("/", "%2F") for part in raw_path.split("/"))
    return "/".join(parts)


def decode_segment(segment: str) -> str:
    """A name as `segments` left it in a path."""
    return segment.replace("%2F", "/").replace("%25", "%")


def has_control(text: str) -> bool:
    return any(unicodedata.category(character) == "Cc" for character in text)


class NameConverter:
    """One segment, decoded; a name with control characters matches no route."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        name = decode_segment(value)
        if has_control(name):
            raise ValueError("control characters are in no connector's name")
        return name

    def to_url(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")
