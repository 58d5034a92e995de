"""One setting in the form of a connector."""

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence.connectors.api.config_types import HIDDEN
from ringfence.web.handbook.references import Reference, explain_setting

SETTING = "setting:"
"""Prefix of the form's field names, so that a setting called `csrfmiddlewaretoken` is no trouble."""
_REFERENCE: Final = re.compile(r"^\s*\$\{[^{}]+\}\s*$")


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
    classes: bool = False
    """Its values are class names: shown without their packages."""
    more: Reference | None = None
    """Where the documents say more."""

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
        return self.slug_of(self.name)

    @staticmethod
    def slug_of(name: str) -> str:
        """The same of any name; two names have two."""
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower())
        return plain if plain == name.replace(".", "-") else f"{plain}-{zlib.crc32(name.encode()):x}"

    @property
    def form_name(self) -> str:
        return SETTING + self.name


def kind_of(definition: Mapping[str, Any]) -> str:
    """Which kind of field takes a setting's value."""
    kinds = {"BOOLEAN": "boolean", "PASSWORD": "password", "INT": "number", "LONG": "number", "SHORT": "number"}
    return kinds.get(str(definition.get("type")), "text")


def other_field(name: str, value: str, secret: Callable[[str], bool]) -> Field:
    """A setting that stands there and that nobody has declared."""
    made = Field(name, name, "text", required=False, advanced=False, help="", default="", blank=not value.strip())
    return _fill(made, value, secret(name))


def _reword(error: str, name: str) -> str:
    """Kafka's words for an empty field, in those of a form; every other error as it is."""
    empty = f'Missing required configuration "{name}" which has no default value.'
    return "This setting is required: fill it in." if error == empty else error


def make_field(
    definition: Mapping[str, Any], value: Mapping[str, Any], config: Mapping[str, str], secret: Callable[[str], bool]
) -> Field:
    """Of one entry of a validation's answer."""
    name, default = str(definition["name"]), definition.get("default_value")
    made = Field(
        name=name,
        label=str(definition.get("display_name") or name),
        kind=kind_of(definition),
        required=bool(definition.get("required")),
        advanced=not definition.get("required") and definition.get("importance") != "HIGH",
        help=str(definition.get("documentation") or ""),
        default="" if default is None else str(default),
        errors=[_reword(str(error), name) for error in value.get("errors", [])],
        width=str(definition.get("width") or "NONE").lower(),
        dependents=tuple(str(each) for each in definition.get("dependents") or ()),
        classes=definition.get("type") == "CLASS",
        more=explain_setting(name, config.get("connector.class", "")),
    )
    choices = [str(each) for each in value.get("recommended_values") or [] if each is not None]
    given = config.get(name, "")
    hides = definition.get("type") == "PASSWORD" or secret(name)
    if choices and made.kind in ("text", "number") and not hides:
        made.choices = choices
        made.kind = "list" if definition.get("type") == "LIST" else "choice"
    made.visible = bool(value.get("visible", True)) or name in config
    made.blank = name in config and not given.strip()
    return _fill(made, given, hides)


def _fill(made: Field, given: str, hides: bool) -> Field:
    """With its value; a secret's is never written into a page, unless it only says where the secret stands."""
    if hides and not _REFERENCE.match(given):
        made.kind, made.kept, made.typed = "password", bool(given), bool(given) and given != HIDDEN
        return made
    made.value = given
    if "\n" in given:
        made.kind = "lines"
    elif made.kind == "password":
        made.kind = "text"
    return made


def pretty(config: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(config.items())), indent=2, ensure_ascii=False)
