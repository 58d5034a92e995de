"""The location of a field: its name, or the path to a nested one (KIP-821)."""

from collections.abc import Mapping

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    ConnectorError,
    Field,
    Importance,
    OneOf,
    Schema,
    Struct,
)
from ringfence.connectors.transforms.base import value_of


def field_syntax(keys: ConfigDef) -> ConfigDef:
    """Add the setting for the syntax of field paths."""
    return keys.define(
        "field.syntax.version",
        ConfigType.STRING,
        default="V1",
        validator=OneOf("V1", "V2", ignore_case=True),
        importance=Importance.HIGH,
        documentation="V1: a field's whole name. V2: a path of names separated by dots; a name with dots is in "
        "backticks.",
    )


class FieldPath:
    """The path to a field."""

    def __init__(self, setting: str, text: str, version: str) -> None:
        """Raises `ConfigException`, which names the setting."""
        self.text = text
        self.steps = [text] if version.upper() == "V1" else steps(setting, text)

    def field(self, schema: Schema) -> Field | None:
        """Return the field in a struct's schema; None if it does not exist."""
        current: Schema = schema
        inner: Field | None = None
        for number, step in enumerate(self.steps):
            inner = current.field(step)
            if inner is None:
                return None
            if number < len(self.steps) - 1:
                current = inner.schema
        return inner

    def in_struct(self, struct: Struct | None, defaults: bool) -> object:
        """Return the field's value; None if a step of the path is null or missing."""
        current: object = struct
        for step in self.steps:
            if current is None:
                return None
            if not isinstance(current, Struct):
                raise ConnectorError(f"{self.text} leads through a {type(current).__name__}, which has no fields.")
            if current.schema.field(step) is None:
                return None
            current = value_of(current, step, defaults)
        return current

    def in_mapping(self, mapping: Mapping[str, object] | None) -> object:
        """Return the field's value; None if a step of the path is null or missing."""
        current: object = mapping
        for step in self.steps:
            if current is None:
                return None
            if not isinstance(current, Mapping):
                raise ConnectorError(f"{self.text} leads through a {type(current).__name__}, which has no fields.")
            current = current.get(step)
        return current


def steps(setting: str, path: str) -> list[str]:
    """Return the names of a version 2 path.

    A backtick at the beginning of a name opens it, and the next one before a dot or the end closes it. After a
    backslash, a backtick is part of the name. Other backticks are literally part of the name.
    """
    names: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            name, at = _parse_quoted(setting, path, at)
        else:
            end = path.find(".", at)
            end = len(path) if end < 0 else end
            name, at = path[at:end], end + 1
        names.append(name)
    if path.endswith("."):
        names.append("")
    return names


def _parse_quoted(setting: str, path: str, opened: int) -> tuple[str, int]:
    """Return the name in backticks that begins at `opened`, and where the next name begins."""
    name, start = "", opened + 1
    at = start
    while (at := path.find("`", at)) >= 0:
        escaped, last = path[at - 1] == "\\", at == len(path) - 1
        if last and not escaped:
            return name + path[start:at], at + 1
        if not last and path[at + 1] == ".":
            if not escaped:
                return name + path[start:at], at + 2
            name, start = name + path[start : at - 1] + "`", at + 1
        at += 1
    raise ConfigException.invalid(
        setting,
        path,
        f"the backtick at position {opened} is never closed; escape it with a backslash, or add another after the name",
    )
