"""Java's regular expressions and replacements, for settings that Kafka Connect users know.

The common syntax of both languages is supported. What only Java supports is refused with the reason, never interpreted
differently.
"""

import re
from typing import Final

from ringfence.connectors.api import ConfigException
from ringfence.connectors.sdk.linear_patterns import LinearPattern

_PIECES: Final = re.compile(
    r"""
      \\k<(?P<back>[A-Za-z][A-Za-z0-9]*)>    # a group named before
    | \\.                                   # any other escape
    | \[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)  # a class of characters, if it ends: nothing in it is a group
    | (?P<group>\(\?<)(?=[A-Za-z])          # the begin of a named group
    """,
    re.VERBOSE | re.DOTALL,
)
_ONLY_JAVA: Final = re.compile(r"\\[pPhHRXGQEz]|&&|\[[^\]\\]*\[")
_ESCAPED_BACKSLASH: Final = "\\\\"


def java_pattern(setting: str, text: str) -> LinearPattern:
    """Return the compiled pattern. Raises `ConfigException`, which names the setting."""
    bare = text.replace(_ESCAPED_BACKSLASH, "")
    if (match := _ONLY_JAVA.search(bare)) is not None:
        reason = f"{match.group()} is supported only in Java's regular expressions; rewrite it"
        raise ConfigException.invalid(setting, text, reason)
    try:
        # In Java, \d and \w are ASCII only.
        return LinearPattern(_PIECES.sub(_ours, text), re.ASCII, captures=True)
    except ValueError as error:
        raise ConfigException.invalid(setting, text, f"Invalid regex: {error}") from error


def _ours(piece: re.Match[str]) -> str:
    """Convert named groups, the one common feature with a different syntax."""
    if piece["back"] is not None:
        return f"(?P={piece['back']})"
    return "(?P<" if piece["group"] is not None else piece.group()


def is_pattern(name: str, value: object) -> None:
    """Validate a pattern."""
    java_pattern(name, str(value))


_REFERENCE: Final = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$([0-9]+)|([$\\])", re.DOTALL)


def replacement(setting: str, text: str, pattern: LinearPattern) -> list[str | tuple[int]]:
    """Return the pieces of a replacement: strings, and groups, each as a tuple of one.

    `$12` is group 12 if it exists, else group 1 followed by a 2. Raises `ConfigException` for a group that the pattern
    does not have.
    """
    pieces: list[str | tuple[int]] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        pieces.append(text[end : match.start()])
        end = match.end()
        escaped, name, digits, _ = match.groups()
        if escaped is not None:
            pieces.append(escaped)
        elif name is not None and name in pattern.names:
            pieces.append((pattern.names[name],))
        elif digits is not None and int(digits[0]) <= pattern.groups:
            length = 1
            while length < len(digits) and int(digits[: length + 1]) <= pattern.groups:
                length += 1
            pieces += [(int(digits[:length]),), digits[length:]]
        else:
            raise ConfigException.invalid(
                setting, text, f"{match.group()} is not a group of the pattern; write \\$ for a $"
            )
    return [piece for piece in [*pieces, text[end:]] if piece]
