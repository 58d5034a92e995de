"""The parts of a connector's form: four cards with their sections of fields and their steps, and a drawer with all
other settings. Templates show them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ringfence.web.new.field import Field
from ringfence.web.new.transform_menu import MenuItem

SOURCE, TRANSFORMS, CONVERTER, TOPIC = "source", "transforms", "converter", "topic"
TITLES: Final = {SOURCE: "Connect", TRANSFORMS: "Transforms", CONVERTER: "Format", TOPIC: "Name and topic"}
_FEW: Final = 10
ICONS: Final = {SOURCE: "database", TRANSFORMS: "wand-sparkles", CONVERTER: "braces", TOPIC: "send"}


@dataclass(slots=True)
class Section:
    """Fields under one heading; "" for none."""

    title: str
    fields: list[Field]

    @property
    def visible(self) -> bool:
        return any(each.visible for each in self.fields)


@dataclass(slots=True)
class Step:
    """One transform. fields: its own settings; which: the records it applies to, with the settings of its predicate
    unless an earlier transform shows them; only: the same in words, "" for all records; more: its type.
    """

    alias: str
    what: MenuItem
    fields: list[Field]
    which: list[Field]
    only: str
    more: list[Field]
    first: bool
    last: bool

    @property
    def slug(self) -> str:
        return Field.slug_of(f"transforms.{self.alias}")

    @property
    def wrong(self) -> int:
        return sum(bool(each.errors) for each in self.all_fields())

    def all_fields(self) -> Iterable[Field]:
        yield from (*self.fields, *self.which, *self.more)

    @property
    def more_is_set(self) -> bool:
        """Whether a setting other than the type is set, or has errors."""
        return any((each.is_set and not each.name.endswith(".type")) or each.errors for each in self.more)


@dataclass(slots=True)
class Card:
    """One part of a record's path. steps, list_field (the setting `transforms`): only on the card of transforms.

    selection: the settings that choose what is read, which a form asks for after the source has answered.
    """

    key: str
    sections: list[Section] = field(default_factory=list)
    selection: list[Section] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    list_field: Field | None = None
    predicates: list[str] = field(default_factory=list)
    """The predicates that transforms may share."""

    @property
    def title(self) -> str:
        return TITLES[self.key]

    @property
    def icon(self) -> str:
        return ICONS[self.key]

    def fields(self) -> Iterable[Field]:
        yield from (self.list_field,) if self.list_field else ()
        for step in self.steps:
            yield from step.all_fields()
        for section in (*self.sections, *self.selection):
            yield from section.fields

    @property
    def wrong(self) -> int:
        return sum(bool(each.errors) for each in self.fields())

    @property
    def selection_is_needed(self) -> bool:
        """Whether a setting that chooses what is read is set or wrong."""
        return any(each.is_set or each.errors for section in self.selection for each in section.fields)

    @property
    def has_selection(self) -> bool:
        return any(section.visible for section in self.selection)


@dataclass(slots=True)
class Drawer:
    """All settings that no card shows."""

    sections: list[Section] = field(default_factory=list)
    later: bool = False
    """Whether its settings are fetched when it is opened."""
    missed: bool = False
    """Whether the page does not have its settings, and needs them: one is set or wrong."""

    @property
    def fields(self) -> list[Field]:
        return [each for section in self.sections for each in section.fields]

    @property
    def visible_fields(self) -> list[Field]:
        return [each for each in self.fields if each.visible]

    @property
    def is_set(self) -> int:
        return sum(each.is_set for each in self.visible_fields)

    @property
    def wrong(self) -> int:
        return sum(bool(each.errors) for each in self.visible_fields)

    @property
    def may_come_later(self) -> bool:
        """Return whether there are many settings, of which none is set or wrong."""
        return len(self.visible_fields) > _FEW and not self.is_set and not self.wrong


@dataclass(slots=True)
class Layout:
    """others: undeclared settings, which are kept. rest: errors that belong to no field."""

    cards: list[Card] = field(default_factory=list)
    drawer: Drawer = field(default_factory=Drawer)
    others: list[Field] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)

    def list_declared(self) -> Iterable[Field]:
        for card in self.cards:
            yield from card.fields()
        yield from self.drawer.fields

    def fields(self) -> Iterable[Field]:
        yield from self.list_declared()
        yield from self.others

    def find(self, name: str) -> Field | None:
        return next((each for each in self.fields() if each.name == name), None)

    def absent_names(self) -> set[str]:
        """Return the settings that the page does not have yet."""
        return {each.name for each in self.drawer.visible_fields} if self.drawer.later else set()

    @property
    def present_fields(self) -> list[Field]:
        """The declared fields that the page has."""
        in_cards = [each for card in self.cards for each in card.fields()]
        return in_cards if self.drawer.later or self.drawer.missed else [*in_cards, *self.drawer.fields]

    @property
    def wrong(self) -> list[Field]:
        return [each for each in self.fields() if each.errors]
