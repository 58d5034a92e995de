"""Reads and writes the format of `java.util.Properties`, compatibly with Java.

Comments (`#`, `!`), `=`, `:` or blanks between key and value, continuation lines after a backslash, and the escapes
`\\t`, `\\n`, `\\r`, `\\f`, `\\uXXXX` and a backslash before any other character. Blanks at the end of a value belong to
it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_BLANKS: Final = " \t\f"
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = {value: f"\\{name}" for name, value in _NAMED.items()}
_SPECIAL: Final = "=:#!"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_BETWEEN: Final = re.compile(r"[ \t\f]*([=:]?)[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
_HEX: Final = re.compile(r"u[0-9a-fA-F]{4}")


class MalformedLine(ValueError):
    """line: counted from 1. The message contains the error and the remedy, but not the text, which may be a secret."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line} {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """One key and its value. line: where it begins."""

    line: int
    key: str
    value: str


def entries(text: str, *, bare: bool = False) -> Iterator[Entry]:
    """Yield all entries in their order, including repeated keys. Raises `MalformedLine`.

    bare: a key alone on its line has an empty value, as in Java. Otherwise it is refused as a likely mistake.
    """
    for line, logical in _logical_lines(text):
        match = _KEY.match(logical)
        assert match is not None
        separator = _BETWEEN.match(logical, match.end())
        assert separator is not None
        if separator.end() == match.end() and not bare:
            raise MalformedLine(line, "is not key=value")
        if not match.end() and not bare:
            raise MalformedLine(line, "has no key before its value")
        yield Entry(line, _plain(match[0], line), _plain(logical[separator.end() :], line))


def read(text: str, *, bare: bool = False) -> dict[str, str]:
    """Return the settings; a repeated key has its last value, as in Java. Raises `MalformedLine`."""
    return {entry.key: entry.value for entry in entries(text, bare=bare)}


def read_several(text: str) -> list[dict[str, str]]:
    """Return several connectors, each with one `name`; each but the first begins with it. Raises `MalformedLine`."""
    groups: list[dict[str, str]] = []
    for entry in entries(text):
        if not groups or (entry.key == "name" and "name" in groups[-1]):
            groups.append({})
        if entry.key in groups[-1]:
            raise MalformedLine(entry.line, f"repeats {entry.key}: begin each connector with its name")
        groups[-1][entry.key] = entry.value
    return groups


def write(settings: Mapping[str, str]) -> str:
    """Return a line `key=value` for each setting, in ASCII, which is the same in every encoding."""
    return "".join(f"{_escape(key, _SPECIAL + ' ')}={_escape(value)}\n" for key, value in settings.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with content, continuation lines joined, with the number of the first."""
    pieces: list[str] = []
    began = 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not pieces and (not line or line[0] in "#!"):
            continue
        began = began if pieces else number
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            pieces.append(line[:-1])
        else:
            yield began, "".join([*pieces, line])
            pieces = []
    if any(pieces):  # the last line ended with a backslash
        yield began, "".join(pieces)


def _plain(text: str, line: int) -> str:
    """Resolve the escapes. Java's characters are UTF-16: two of them may form one of ours."""

    def one(match: re.Match[str]) -> str:
        if match[1][0] != "u":
            return _NAMED.get(match[1], match[1])
        if not _HEX.fullmatch(match[1]):
            raise MalformedLine(line, "has a \\u without four hexadecimal digits: write a backslash as \\\\")
        return chr(int(match[1][1:], 16))

    plain = _ESCAPE.sub(one, text)
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise MalformedLine(line, "has half a character: write a \\udc… after each \\ud8…") from None


def _escape(text: str, special: str = "") -> str:
    pieces = []
    for character in text:
        if character in _ESCAPED:
            pieces.append(_ESCAPED[character])
        elif character == "\\" or character in special:
            pieces.append(f"\\{character}")
        elif " " <= character <= "~":
            pieces.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            pieces += [f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2)]
    first = "".join(pieces)
    return f"\\{first}" if first.startswith(" ") else first
