"""One setting in the form of a connector."""

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence.connectors.api.config_types import HIDDEN
from ringfence.http.section_links import Reference, explain_setting

SETTING = "setting:"
"""The prefix of the form's field names, so that a setting may be called `csrfmiddlewaretoken`."""
_REFERENCE: Final = re.compile(r"^\s*\$\{[^{}]+\}\s*$")


_PREFIX: Final = re.compile(r"^(?:transforms|predicates)\.[^.]+\.|^(?:key|value|header)\.converter\.(?=.)")
_WORDS: Final = re.compile(r"[._-]+|(?<=[a-z])(?=[A-Z])")


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
    """A note about each choice."""
    errors: list[str] = field(default_factory=list)
    warning: str = ""
    """A warning that blocks nothing."""
    width: str = "none"
    dependents: tuple[str, ...] = ()
    visible: bool = True
    blank: bool = False
    """The setting is present, with an empty value."""
    is_saved: bool = False
    """A stored secret, which is not displayed."""
    typed: bool = False
    """The secret came with the text, regardless of its field."""
    classes: bool = False
    """The values are class names, displayed without their packages."""
    more: Reference | None = None
    """The section of the documentation about it."""

    @property
    def is_set(self) -> bool:
        return bool(self.value) or self.blank or self.is_saved

    @property
    def choices_of_value(self) -> list[str]:
        """The selected values of a list."""
        return [each.strip() for each in self.value.split(",")]

    @property
    def slug(self) -> str:
        """Its name, for ids in the page."""
        return self.slug_of(self.name)

    @staticmethod
    def slug_of(name: str) -> str:
        """Return a slug that is unique to the name."""
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower())
        return plain if plain == name.replace(".", "-") else f"{plain}-{zlib.crc32(name.encode()):x}"

    @property
    def form_name(self) -> str:
        return SETTING + self.name


def kind_of(definition: Mapping[str, Any]) -> str:
    """Return the kind of field for a setting."""
    kinds = {"BOOLEAN": "boolean", "PASSWORD": "password", "INT": "number", "LONG": "number", "SHORT": "number"}
    return kinds.get(str(definition.get("type")), "text")


def other_field(name: str, value: str, secret: Callable[[str], bool]) -> Field:
    """Make the field of a setting that is present, but that no plugin declares."""
    form_field = Field(name, name, "text", required=False, advanced=False, help="", default="", blank=not value.strip())
    return _fill(form_field, value, secret(name))


def _reword(error: str, name: str) -> str:
    """Return a clearer message for a missing value; other errors unchanged."""
    empty = f'Missing required configuration "{name}" which has no default value.'
    return "This setting is required: fill it in." if error == empty else error


def _label(name: str, display_name: str) -> str:
    """Return the plugin's label, or the setting's name in words: `replace.null.with.default` is "Replace null with
    default". A setting of a transform or converter is named without its prefix.
    """
    if not name.endswith(display_name):
        return display_name
    words = " ".join(_WORDS.sub(" ", _PREFIX.sub("", name)).split())
    return words[:1].upper() + words[1:] if words else name


def make_field(
    definition: Mapping[str, Any], value: Mapping[str, Any], config: Mapping[str, str], secret: Callable[[str], bool]
) -> Field:
    """Make a field from one entry of a validation's answer."""
    name, default = str(definition["name"]), definition.get("default_value")
    form_field = Field(
        name=name,
        label=_label(name, str(definition.get("display_name") or name)),
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
    text = config.get(name, "")
    # What the connector refuses while it is empty is required with the other settings as they are.
    if form_field.errors and not text.strip() and not form_field.default:
        form_field.required = True
    form_field.advanced = form_field.advanced and not form_field.required
    hides = definition.get("type") == "PASSWORD" or secret(name)
    if choices and form_field.kind in ("text", "number") and not hides:
        form_field.choices = choices
        form_field.kind = "list" if definition.get("type") == "LIST" else "choice"
    form_field.visible = bool(value.get("visible", True)) or name in config
    form_field.blank = name in config and not text.strip()
    return _fill(form_field, text, hides)


def _fill(form_field: Field, text: str, hides: bool) -> Field:
    """Set its value. A secret is never written into a page, unless it is only a reference to where the
    secret is stored.
    """
    if hides and not _REFERENCE.match(text):
        form_field.kind, form_field.is_saved, form_field.typed = "password", bool(text), bool(text) and text != HIDDEN
        return form_field
    form_field.value = text
    if "\n" in text or text.lstrip().startswith("{"):  # JSON is long
        form_field.kind = "lines"
    elif form_field.kind == "password":
        form_field.kind = "text"
    return form_field


def pretty(config: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(config.items())), indent=2, ensure_ascii=False)
