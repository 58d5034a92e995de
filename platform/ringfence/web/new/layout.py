"""The layout of a connector's form: four cards along a record's path with the important settings, and a drawer with
the others.

It is made from the answer of a validation, so that errors, recommended values and visibility match the current values.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.connectors.api.config_types import CHOICE_NOTES, SELECTS
from ringfence.connectors.common_settings import source_config_def
from ringfence.connectors.transforms.registry import aliases
from ringfence.web.new.cards import CONVERTER, SOURCE, TITLES, TOPIC, TRANSFORMS, Card, Drawer, Layout, Section, Step
from ringfence.web.new.field import Field, make_field, other_field
from ringfence.web.new.transform_menu import describe_type
from ringfence.web.new.transform_predicates import LIST, describe, predicate_of

_ELSEWHERE: Final = ("name", "connector.class")
TOPIC_NAMES: Final = ("topic", "topic.prefix")
_IN_TOPIC: Final = (*TOPIC_NAMES, "topic.pattern")
"""Settings of connectors that name the records' topic."""
_CONVERTERS: Final = {"value.converter": "Value", "key.converter": "Key", "header.converter": "Headers"}
_OF_STEP: Final = ("type", "plugin.version")
_WHICH: Final = ("predicate", "negate")
_POINTLESS: Final = re.compile(
    r"(transforms\..*|predicates\..*|.*converter)\.plugin\.version|.*schema\.content|.*max\.enforce"
)
"""Settings whose default is the only useful value. They are shown only if set."""


def layout(
    validation: Mapping[str, Any],
    config: Mapping[str, str],
    secret: Callable[[str], bool],
    tell: Callable[[str], bool] = lambda _: True,
) -> Layout:
    """Make the layout. config: as displayed, with masked secrets; tell: whether to show a setting's errors yet."""
    framework = source_config_def(config).keys
    form_layout = Layout()
    notes = validation.get(CHOICE_NOTES, {})
    by_card: dict[str, list[_FieldPlace]] = {key: [] for key in TITLES}
    for entry in validation.get("configs", []):
        definition, value = entry["definition"], entry["value"]
        name = str(definition["name"])
        if name in _ELSEWHERE:
            form_layout.rest += [str(error) for error in value.get("errors", []) if name != "name"]
            continue
        field = make_field(definition, value, config, secret)
        if field.kind == "list":
            field.notes = notes.get(name, {})
        field.errors = field.errors if tell(name) else []
        if _POINTLESS.fullmatch(name) and not (field.is_set or field.errors):
            field.visible = False
        order = definition.get("order_in_group", definition.get("order", -1))
        ours, group = name in framework, str(definition.get("group") or "")
        by_card[_card_of(name, ours, group)].append(
            _FieldPlace(field, ours, group, order if isinstance(order, int) else -1)
        )
    if any(by_card.values()):
        selects = frozenset(validation.get(SELECTS, ()))
        form_layout.cards = [_card(key, places, config, form_layout.drawer, selects) for key, places in by_card.items()]
    declared_names = {each.name for each in form_layout.fields()} | set(_ELSEWHERE)
    form_layout.others = [other_field(key, config[key], secret) for key in sorted(config.keys() - declared_names)]
    return form_layout


@dataclass(frozen=True, slots=True)
class _FieldPlace:
    """A field with its place. ours: whether all connectors have the setting."""

    field: Field
    ours: bool
    group: str
    order: int


def _card_of(name: str, ours: bool, group: str) -> str:
    if name.partition(".")[0] in ("transforms", "predicates"):
        return TRANSFORMS
    if any(name == converter or name.startswith(f"{converter}.") for converter in _CONVERTERS):
        return CONVERTER
    return TOPIC if ours or name in _IN_TOPIC else SOURCE


def _card(
    key: str, places: Sequence[_FieldPlace], config: Mapping[str, str], drawer: Drawer, selects: frozenset[str]
) -> Card:
    if key == TRANSFORMS:
        return _transforms(places, config, drawer)
    if key == CONVERTER:
        return _converters(places, drawer)
    card = Card(key)
    for title, fields in _groups(places):
        _add_section(card, drawer, title, fields, selects)
    return card


def _groups(places: Iterable[_FieldPlace]) -> list[tuple[str, list[Field]]]:
    """Group the fields, with the plugin's own first. Both halves keep their order."""
    groups: dict[tuple[bool, str], list[_FieldPlace]] = {}
    for each in places:
        groups.setdefault((each.ours, each.group), []).append(each)
    sorted_groups = sorted(groups.items(), key=lambda item: item[0][0])
    return [
        (title, [each.field for each in sorted(them, key=lambda one: one.order)]) for (_, title), them in sorted_groups
    ]


def _add_section(
    card: Card, drawer: Drawer, title: str, fields: Sequence[Field], selects: frozenset[str] = frozenset()
) -> None:
    """Divide a group's fields: the important ones stand in the card, with or after those that reach the source."""
    important = [each for each in fields if not each.advanced]
    selection = [each for each in important if each.name in selects]
    shown_title = "" if title == "Common" or card.key == TOPIC else title
    for sections, part in (
        (card.sections, [each for each in important if each.name not in selects]),
        (card.selection, selection),
    ):
        sections += [Section(shown_title, part)] if part else []
    rest = [each for each in fields if each.advanced]
    drawer.sections += [Section(title or "The connector's own", rest)] if rest else []


def _converters(places: Sequence[_FieldPlace], drawer: Drawer) -> Card:
    """Make the card of converters, each with its settings below it."""
    card = Card(CONVERTER)
    for name, title in _CONVERTERS.items():
        fields = [each.field for each in places if each.field.name == name or each.field.name.startswith(f"{name}.")]
        if name != "header.converter":
            for each in fields:
                each.advanced = each.advanced and each.name != name
        _add_section(card, drawer, title, fields)
    return card


def _transforms(places: Sequence[_FieldPlace], config: Mapping[str, str], drawer: Drawer) -> Card:
    fields = {each.field.name: each.field for each in places}
    card = Card(TRANSFORMS, list_field=fields.pop("transforms", None), predicates=aliases(config, LIST))
    names = list(dict.fromkeys(aliases(config, "transforms")))
    for number, alias in enumerate(names):
        prefix = f"transforms.{alias}."
        mine = [fields.pop(name) for name in [*fields] if name.startswith(prefix)]
        which = [each for each in mine if each.name.removeprefix(prefix) in _WHICH]
        more = [each for each in mine if each.name.removeprefix(prefix) in _OF_STEP]
        own = [each for each in mine if each not in more and each not in which]
        predicate = predicate_of(config, alias)
        of_predicate = [fields.pop(name) for name in [*fields] if name.startswith(f"{LIST}.{predicate}.")]
        more += [each for each in of_predicate if each.name.endswith(tuple(f".{part}" for part in _OF_STEP))]
        which = [each for each in of_predicate if each not in more] + which
        for each in (*mine, *of_predicate):
            each.advanced = False
        only = describe(config, predicate) if predicate in card.predicates else ""
        what = describe_type(config.get(f"{prefix}type", "").strip())
        card.steps.append(Step(alias, what, own, which, only, more, number == 0, number == len(names) - 1))
    _offer_predicates(card)
    for title, group in _groups(each for each in places if each.field.name in fields):
        for each in group:
            each.advanced = (
                each.advanced and each.name == "predicates"
            )  # a named converter: all of its settings are important
        _add_section(card, drawer, title, group)
    return card


def _offer_predicates(card: Card) -> None:
    """Keep only the predicate choices that are useful."""
    for step in card.steps:
        for each in step.which:
            if each.name.endswith(".predicate"):
                each.visible = each.is_set or bool(each.errors)
                if card.predicates:
                    each.kind, each.choices = "choice", card.predicates
            elif each.name.endswith(".negate"):
                each.visible = bool(step.only) or each.is_set or bool(each.errors)
