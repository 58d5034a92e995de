"""Transforms of what stands beside key and value: RegexRouter changes a record's topic, Filter drops the record,
DropHeaders, HeaderFrom and InsertHeader change its headers. With Java's regular expressions and replacements, for
settings that Kafka Connect users know.

The common syntax of both languages is supported. What only Java supports is refused with the reason, never interpreted
differently.
"""

import re
from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Importance,
    OneOf,
    Schema,
    SchemaAndValue,
    SourceRecord,
    Struct,
)
from ringfence.connectors.columns import Column
from ringfence.connectors.sdk.linear_patterns import LinearPattern, Match
from ringfence.connectors.sdk.values.literals import parse
from ringfence.connectors.transforms.base import (
    JAVA,
    KeyOrValue,
    Rebuilt,
    Transform,
    basics,
    define_items,
    halves,
    keep_for,
    replace_null,
)

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


class DropHeaders(Transform):
    """Removes all headers with some names."""

    name = "DropHeaders"
    aliases = (JAVA + name,)
    _CONFIG_DEF = define_items(ConfigDef(), "headers", "The names of the headers to remove.")

    def configure(self, config: Mapping[str, str]) -> None:
        self._names = frozenset(self._CONFIG_DEF.parse(config).strings("headers"))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        remaining = [(name, value) for name, value in record.headers if name not in self._names]
        if len(remaining) == len(record.headers):
            return record
        changed = record.copy()
        changed.headers = remaining
        return changed


class InsertHeader(Transform):
    """Adds a header to each record."""

    name = "InsertHeader"
    aliases = (JAVA + name,)
    _CONFIG_DEF = (
        ConfigDef()
        .define(
            "header",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The header's name.",
        )
        .define(
            "value.literal",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The header's value: parsed as a number, true or false, a date, a list or a mapping if it "
            "has that form, else a string.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        literal = parse(settings.string("value.literal"))
        self._header = (settings.string("header"), literal)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        changed = record.copy()
        changed.headers = [*record.headers, self._header]
        return changed


class HeaderFrom(KeyOrValue):
    """Moves fields into headers, or copies them there."""

    _CONFIG_DEF = replace_null(
        define_items(
            define_items(ConfigDef(), "fields", "The fields."),
            "headers",
            "The headers' names, in the order of the fields.",
        ).define(
            "operation",
            ConfigType.STRING,
            validator=OneOf("move", "copy"),
            importance=Importance.HIGH,
            documentation="move: the fields are removed from the key or value; copy: they are kept.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        settings = self._CONFIG_DEF.parse(config)
        fields, headers = settings.strings("fields"), settings.strings("headers")
        if len(fields) != len(headers):
            raise ConfigException("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs = list(zip(fields, headers, strict=True))
        self._fields = frozenset(fields)
        self._move = settings.string("operation") == "move"
        self._defaults = settings.boolean("replace.null.with.default")
        self._schema = Rebuilt(self._rebuild)

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        schema, value = self.target(record)
        if schema is None:
            mapping = self.mapping(record, value)
            added = [(header, SchemaAndValue(None, mapping.get(name))) for name, header in self._pairs]
            left: object = {name: each for name, each in mapping.items() if not (self._move and name in self._fields)}
        else:
            struct = self.struct(record, value)
            added = [(header, self._of(struct, name)) for name, header in self._pairs]
            left = struct
            if self._move:
                schema = self._schema(struct.schema)
                left = Struct.of(schema, [keep_for(struct, name, self._defaults) for name in schema.names])
        changed = self.replace_part(record, schema, left)
        changed.headers = [*record.headers, *added]
        return changed

    def _of(self, struct: Struct, name: str) -> SchemaAndValue:
        field = struct.schema.field(name)
        if field is None:
            raise ConnectorError(f"HeaderFrom finds no field {name}: the fields are {', '.join(struct.schema.names)}.")
        return SchemaAndValue(field.schema, keep_for(struct, name, self._defaults))

    def _rebuild(self, schema: Schema) -> Schema:
        return basics(schema, {name: inner for name, _, inner in schema.fields if name not in self._fields})


HeaderFromKey, HeaderFromValue = halves(HeaderFrom)
