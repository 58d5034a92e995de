"""One setting in the form of a connector."""

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SETTING = "setting:"
"""Prefix of the form's field names, so that a setting called `csrfmiddlewaretoken` is no trouble."""


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
    notes: dict[str, str] = field(default_factory=dict)
    """What is said of each of the choices."""
    errors: list[str] = field(default_factory=list)
    warning: str = ""
    """What will happen; it refuses nothing."""
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
    def chosen(self) -> list[str]:
        """The values of a list."""
        return [each.strip() for each in self.value.split(",")]

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


def pretty(config: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(config.items())), indent=2, ensure_ascii=False)
