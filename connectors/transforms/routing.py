"""Transforms that change a record's topic, or drop it: RegexRouter, Filter; with Java's regular expressions and
replacements, for settings that Kafka Connect users know.

The common syntax of both languages is supported. What only Java supports is refused with the reason, never interpreted
differently.
"""

import re
from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import ConfigDef, ConfigException, ConfigType, Importance, SourceRecord
from ringfence.connectors.columns import Column
from ringfence.connectors.sdk.linear_patterns import LinearPattern, Match
from ringfence.connectors.transforms.base import JAVA, Transform

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


class RegexRouter(Transform):
    """Changes the topic of records whose whole topic name matches the pattern; other records are unchanged."""

    name = "RegexRouter"
    aliases = (JAVA + name,)
    _CONFIG_DEF = (
        ConfigDef()
        .define(
            "regex",
            ConfigType.STRING,
            validator=is_pattern,
            importance=Importance.HIGH,
            documentation="A regular expression that the whole name of the topic must match.",
        )
        .define(
            "replacement",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The replacement of the match; $1 and ${name} are its groups.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        self._pattern = java_pattern("regex", settings.string("regex"))
        self._replacement = replacement("replacement", settings.string("replacement"), self._pattern)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        topic = self._route(record.topic)
        if topic is record.topic:
            return record
        changed = record.copy()
        changed.topic = topic
        return changed

    @property
    def by_column(self) -> bool:
        return True

    def apply_column(self, column: Column) -> bool:
        column.topic = self._route(column.topic)
        return True

    def _route(self, topic: str) -> str:
        if not self._pattern.fullmatch(topic):
            return topic
        # Searched again, as Java does: a lazy pattern may replace only a part of the name.
        match = self._pattern.search(topic)
        return topic if match is None else topic[: match.start] + self._expand(match) + topic[match.end :]

    def _expand(self, match: Match) -> str:
        return "".join(part if isinstance(part, str) else match.groups[part[0]] or "" for part in self._replacement)


class Filter(Transform):
    """Drops every record: used with a predicate."""

    name = "Filter"
    aliases = (JAVA + name,)
    _CONFIG_DEF = ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        pass

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        return None
