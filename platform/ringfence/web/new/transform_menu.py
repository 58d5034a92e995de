"""The transforms by purpose, in users' words: the menu of a form, and the titles of chosen transforms."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from ringfence.connectors.api import ConfigException
from ringfence.connectors.transforms import find_transform
from ringfence.connectors.transforms.registry import TRANSFORMS

_FIELDS, _SHAPE, _TOPIC, _RECORD = "Fields", "Shape", "Topic", "Records and headers"
_PURPOSES: Final[dict[str, tuple[str, str, str]]] = {
    "MaskField": (_FIELDS, "Mask fields", "Hide what fields hold: personal data, card numbers"),
    "ReplaceField": (
        _FIELDS,
        "Keep, remove or rename fields",
        "Choose which fields are passed on, and under which names",
    ),
    "InsertField": (_FIELDS, "Add a field", "The topic, the record's time, or a constant"),
    "Cast": (_FIELDS, "Change types", "A string to a number, a number to a string, and so on"),
    "TimestampConverter": (_FIELDS, "Convert a time", "Between a date, a number and a string in a format"),
    "ExtractField": (_SHAPE, "Take one field only", "One field in place of all of them"),
    "HoistField": (_SHAPE, "Wrap in a field", "All of it as the only field of an object"),
    "Flatten": (_SHAPE, "Flatten nested fields", "Inner fields move to the top, their names joined"),
    "ExtractNewRecordState": (_SHAPE, "Unwrap change events", "The row of a Debezium event in place of the envelope"),
    "SetSchemaMetadata": (_SHAPE, "Name the schema", "A schema name, a version, or both"),
    "ValueToKey": (_SHAPE, "Make a key of fields", "Fields of the value become the record's key"),
    "RegexRouter": (_TOPIC, "Rename the topic", "By a regular expression and a replacement"),
    "TimestampRouter": (_TOPIC, "Add the date to the topic", "A topic for each day, month or hour"),
    "Filter": (_RECORD, "Drop records", "Those that a predicate accepts"),
    "InsertHeader": (_RECORD, "Add a header", "The same header on each record"),
    "DropHeaders": (_RECORD, "Remove headers", "All headers of some names"),
    "HeaderFrom": (_RECORD, "Move fields to headers", "Or copy them there"),
}
_HALVES: Final = {"Value": "value", "Key": "key"}


@dataclass(frozen=True, slots=True)
class MenuItem:
    """A transform to choose. type: the value of `transforms.<alias>.type`; short: the class without its package."""

    group: str
    title: str
    about: str
    type: str
    short: str
    half: str = ""
    """Which part of the record it changes, if another transform changes the other part."""
    of_key: str = ""
    """In the menu: the type of the transform that does the same to keys."""


@cache
def menu_items() -> tuple[MenuItem, ...]:
    """Return all of our transforms, by group: one item for what can be done to values and to keys."""
    items = [_item(cls.name, next(iter(cls.aliases), cls.name)) for cls in TRANSFORMS]
    of_keys = {item.title: item.type for item in items if item.half == "key"}
    titles = [title for _, title, _ in _PURPOSES.values()]
    menu = [replace(item, of_key=of_keys.get(item.title, "")) for item in items if item.half != "key"]
    return tuple(sorted(menu, key=lambda item: titles.index(item.title)))


def describe_type(type_: str) -> MenuItem:
    """Return the item of a configured type. A transform that is not ours is shown by its own name."""
    try:
        name = find_transform("type", type_).name
    except ConfigException:
        short = type_.rpartition(".")[2]
        return MenuItem("", short or "A transform", "", type_, short)
    return _item(name, type_)


def _item(name: str, type_: str) -> MenuItem:
    simple, _, half = name.partition("$")
    group, title, about = _PURPOSES[simple]
    return MenuItem(group, title, about, type_, name, _HALVES.get(half, ""))
