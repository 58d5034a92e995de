"""The form of a connector, made from its plugin's config keys."""

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ringfence.api.errors import ConnectError
from ringfence.api.jsonbody import config_of, object_of, read

SETTING = "setting:"
"""Prefix of the form's field names, so that a setting called `csrfmiddlewaretoken` is no trouble."""
_PLACEHOLDER_LIMIT = 60


@dataclass(slots=True)
class Field:
    """One setting in the form."""

    name: str
    label: str
    kind: str
    required: bool
    advanced: bool
    help: str
    default: str
    value: str = ""
    choices: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    width: str = "none"
    dependents: tuple[str, ...] = ()
    visible: bool = True
    blank: bool = False
    """It is set, and empty."""
    kept: bool = False
    """It is a secret that is known and not shown."""
    typed: bool = False
    """And it came with the text, whatever was typed into its field before."""

    @property
    def is_set(self) -> bool:
        return bool(self.value) or self.blank or self.kept

    @property
    def slug(self) -> str:
        """For ids in the page."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.name.lower())
        return plain if plain == self.name.replace(".", "-") else f"{plain}-{zlib.crc32(self.name.encode()):x}"

    @property
    def form_name(self) -> str:
        return SETTING + self.name


def kind_of(definition: Mapping[str, Any]) -> str:
    """Which kind of field takes a setting's value."""
    kinds = {"BOOLEAN": "boolean", "PASSWORD": "password", "INT": "number", "LONG": "number", "SHORT": "number"}
    return kinds.get(str(definition.get("type")), "text")


def fields_of(definitions: Iterable[Mapping[str, Any]], values: Mapping[str, str]) -> list[Field]:
    """The fields in the plugin's order; name and class are asked for elsewhere."""
    result = []
    for definition in definitions:
        name = str(definition["name"])
        if name in ("name", "connector.class"):
            continue
        default = definition.get("default_value")
        result.append(
            Field(
                name=name,
                label=str(definition.get("display_name") or name),
                kind=kind_of(definition),
                required=bool(definition.get("required")),
                advanced=not definition.get("required") and definition.get("importance") != "HIGH",
                help=str(definition.get("documentation") or ""),
                default="" if default is None else str(default)[:_PLACEHOLDER_LIMIT],
                value=values.get(name, ""),
            )
        )
    return result


def config_of_form(posted: Mapping[str, str]) -> dict[str, str]:
    """The settings that were filled in; an empty field means the default."""
    return {
        key.removeprefix(SETTING): value for key, value in posted.items() if key.startswith(SETTING) and value.strip()
    }


def put_errors(fields: Iterable[Field], validation: Mapping[str, Any]) -> list[str]:
    """Put each error of a validation at its field; returns those that belong to none."""
    by_name = {entry.name: entry for entry in fields}
    rest: list[str] = []
    for config in validation.get("configs", []):
        value = config["value"]
        target = by_name.get(str(value["name"]))
        errors = [str(error) for error in value.get("errors", [])]
        if target is None:
            rest += errors
        else:
            target.errors = errors
            target.choices = [str(choice) for choice in value.get("recommended_values") or []]
    return rest


def pasted(text: str) -> tuple[str, dict[str, str]]:
    """Name and configuration out of pasted JSON: `{"name", "config"}` or the flat map. Raises ConnectError."""
    value = object_of(read(text.encode("utf-8", "replace")), "What was pasted")
    if isinstance(value.get("config"), dict):
        config = config_of(value["config"])
        return str(value.get("name") or config.get("name", "")).strip(), config
    config = config_of(value)
    return config.get("name", "").strip(), config


def pretty(config: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(config.items())), indent=2, ensure_ascii=False)


__all__ = ["ConnectError", "Field", "config_of_form", "fields_of", "pasted", "pretty", "put_errors"]
