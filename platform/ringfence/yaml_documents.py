"""Parses YAML from others within limits: what is too deep, too much or an alias is refused while it is scanned.

Every scalar stays as it is written: `1.50` stays `1.50`, and `no` stays `no`. Values are strings, lists and maps only.
PyYAML's own loaders build everything first, and an alias costs nothing until somebody looks at it: a few hundred bytes
can stand for gigabytes. The scanner is libyaml where PyYAML has it, which is a hundred times as fast.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

DEEPEST: Final = 16
"""Levels of lists and maps. libyaml's time grows with the square of the depth."""
MOST_NODES: Final = 1000
"""Scalars, lists and maps of one connector: a map of 490 settings, and more than any connector has."""

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

Value = str | list[Any] | dict[str, Any]


class MalformedYaml(ValueError):
    """The message contains the reason and the line."""


@dataclass(slots=True)
class _Open:
    """A list or map that has begun. key: the map's key that waits for its value."""

    content: list[Any] | dict[str, Any]
    key: str | None = None
    anchor: str | None = None


class _Builder:
    """Builds the value of one document from its events."""

    def __init__(self, *, aliases: bool) -> None:
        self._aliases = aliases
        self._anchors: dict[str, tuple[Value, int]] = {}
        self._open: list[_Open] = []
        self._nodes = 0
        self._began: list[int] = []
        self.values: list[Value] = []

    def add(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._anchors.clear()
            case yaml.AliasEvent():
                self._put_alias(event)
            case yaml.ScalarEvent():
                self._count(1, event)
                self._put(str(event.value), event)
                if event.anchor is not None:
                    self._anchors[event.anchor] = str(event.value), 1
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._begin(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end(event)

    def _begin(self, event: Any) -> None:
        if len(self._open) >= DEEPEST:
            raise _refusal(event, f"has more than {DEEPEST} levels")
        if self._key_is_next():
            raise _refusal(event, "has a list or a map as a key")
        self._count(1, event)
        self._began.append(self._nodes)
        content: list[Any] | dict[str, Any] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        self._open.append(_Open(content, anchor=event.anchor))

    def _end(self, event: yaml.Event) -> None:
        ended, began = self._open.pop(), self._began.pop()
        self._put(ended.content, event)
        if ended.anchor is not None:
            self._anchors[ended.anchor] = ended.content, self._nodes - began + 1

    def _put_alias(self, event: yaml.AliasEvent) -> None:
        if not self._aliases:
            raise _refusal(event, "has an alias (*): write the value itself")
        if event.anchor not in self._anchors:
            raise _refusal(event, "has an alias (*) without its anchor (&)")
        value, nodes = self._anchors[event.anchor]
        self._count(nodes, event)
        self._put(value, event)

    def _put(self, value: Value, event: yaml.Event) -> None:
        if not self._open:
            self.values.append(value)
            self._nodes = 0
            return
        here = self._open[-1]
        if isinstance(here.content, list):
            here.content.append(value)
        elif here.key is not None:
            here.content[here.key], here.key = value, None
        elif isinstance(value, str):
            here.key = value
        else:
            raise _refusal(event, "has a list or a map as a key")
        if len(self._open) == 1 and isinstance(here.content, list):
            self._nodes = 0  # the next connector of a list

    def _key_is_next(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].content, dict) and self._open[-1].key is None

    def _count(self, nodes: int, event: yaml.Event) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            raise _refusal(event, f"belongs to a connector with more than {MOST_NODES:,} values")


def read_documents(text: str, *, aliases: bool = False) -> list[Value]:
    """Return the values of all documents. Raises `MalformedYaml`.

    aliases: they are allowed, and what they stand for counts each time. Otherwise each one is refused.
    """
    builder = _Builder(aliases=aliases)
    try:
        for event in _events(text):
            builder.add(event)
    except MalformedYaml:
        raise
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a character that UTF-8 does not have
        raise MalformedYaml(" ".join(str(error).split())) from error
    return builder.values


def _events(text: str) -> Iterator[yaml.Event]:
    yield from yaml.parse(text, Loader=_LOADER)


def _refusal(event: yaml.Event, what: str) -> MalformedYaml:
    mark = event.start_mark
    return MalformedYaml(f"line {mark.line + 1} {what}" if mark is not None else f"it {what}")
