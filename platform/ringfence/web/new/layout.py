"""How a form shows a configuration: sections from the groups of its settings, what matters most open, the rest folded.

Made of a validation's answer, so that errors, recommended values and visibility are those of these very values.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ringfence.connectors.api.config_types import CHOICE_NOTES, HIDDEN
from ringfence.connectors.source_config import source_config_def
from ringfence.web.new.field import Field, kind_of

_ELSEWHERE: Final = ("name", "connector.class")
_REFERENCE: Final = re.compile(r"^\s*\$\{[^{}]+\}\s*$")
_BY_ALIAS: Final = re.compile(r"^(transforms|predicates)\.")


@dataclass(slots=True)
class Section:
    """Fields under one heading; "" for the plugin's own without a group."""

    title: str
    fields: list[Field]


@dataclass(slots=True)
class Layout:
    """`others`: settings that nobody has declared, which are kept. `rest`: errors that belong to no field."""

    open: list[Section] = field(default_factory=list)
    advanced: list[Section] = field(default_factory=list)
    others: list[Field] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)

    def fields(self) -> Iterable[Field]:
        for section in (*self.open, *self.advanced):
            yield from section.fields
        yield from self.others

    @property
    def wrong(self) -> list[Field]:
        return [each for each in self.fields() if each.errors]

    @property
    def hidden_count(self) -> int:
        return sum(len(section.fields) for section in self.advanced)

    @property
    def hidden_set(self) -> int:
        return sum(each.is_set for section in self.advanced for each in section.fields)

    @property
    def unfold(self) -> bool:
        """Whether what is folded has something to look at."""
        return any(each.errors for section in self.advanced for each in section.fields)


def layout(
    validation: Mapping[str, Any],
    config: Mapping[str, str],
    secret: Callable[[str], bool],
    tell: Callable[[str], bool] = lambda _: True,
) -> Layout:
    """`config`: as it is shown, secrets as masks; `tell`: whether a setting's errors are shown yet."""
    framework = source_config_def(config).keys
    found = Layout()
    notes = validation.get(CHOICE_NOTES, {})
    by_group: dict[tuple[bool, str], list[tuple[int, Field]]] = {}
    for entry in validation.get("configs", []):
        definition, value = entry["definition"], entry["value"]
        name = str(definition["name"])
        if name in _ELSEWHERE:
            found.rest += [str(error) for error in value.get("errors", []) if name != "name"]
            continue
        made = _field(definition, value, config, secret)
        if made.kind == "list":
            made.notes = notes.get(name, {})
        made.errors = made.errors if tell(name) else []
        order = definition.get("order_in_group", definition.get("order", -1))
        key = (name in framework, str(definition.get("group") or ""))
        by_group.setdefault(key, []).append((order if isinstance(order, int) else -1, made))
    groups = [*by_group]
    groups.sort(key=lambda key: key[0])  # the plugin's own come first; both halves keep their order
    for key in groups:
        fields = [made for _, made in sorted(by_group[key], key=lambda pair: pair[0])]
        asked_for = bool(_BY_ALIAS.match(fields[0].name))  # somebody has named this transform: all of it matters
        shown = [each for each in fields if asked_for or not each.advanced]
        folded = [each for each in fields if each not in shown]
        found.open += [Section(key[1], shown)] if shown else []
        found.advanced += [Section(key[1] or "The connector's own", folded)] if folded else []
    declared = {each.name for each in found.fields()} | set(_ELSEWHERE)
    found.others = [other_field(key, config[key], secret) for key in sorted(config.keys() - declared)]
    return found


def other_field(name: str, value: str, secret: Callable[[str], bool]) -> Field:
    """A setting that stands there and that nobody has declared."""
    made = Field(name, name, "text", required=False, advanced=False, help="", default="", blank=not value.strip())
    return _fill(made, value, secret(name))


def _field(
    definition: Mapping[str, Any], value: Mapping[str, Any], config: Mapping[str, str], secret: Callable[[str], bool]
) -> Field:
    name, default = str(definition["name"]), definition.get("default_value")
    made = Field(
        name=name,
        label=str(definition.get("display_name") or name),
        kind=kind_of(definition),
        required=bool(definition.get("required")),
        advanced=not definition.get("required") and definition.get("importance") != "HIGH",
        help=str(definition.get("documentation") or ""),
        default="" if default is None else str(default),
        errors=[str(error) for error in value.get("errors", [])],
        width=str(definition.get("width") or "NONE").lower(),
        dependents=tuple(str(each) for each in definition.get("dependents") or ()),
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
