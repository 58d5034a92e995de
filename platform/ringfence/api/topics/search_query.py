"""A search in a topic's records, parsed from a query or a form, as a request to a worker."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from rest_framework.exceptions import ValidationError

from ringfence.api.topics.readers import TopicReader
from ringfence.api.v1.request_fields import IntegerField, MomentField, OneOfField, QueryShape, StringField, check
from ringfence.requests.topic_questions import ReadRecords

LEVELS: Final = ("read_committed", "read_uncommitted")
PLACES: Final = ("latest", "earliest", "offset", "time")
MOST: Final = 200
USUAL: Final = 50
_VALUES: Final = ("offset", "time")
"""The places that need a value, which is in the field of the same name."""
_TRIMMED: Final = (*_VALUES, "partition")
_MAY_BE_EMPTY: Final = (*_TRIMMED, "limit", "cursor")
_LARGEST: Final = 2**63 - 1
_LONGEST: Final = 1000
_MOST_PARTITIONS: Final = 1000


class CursorField(StringField):
    """Where the last page of the same search ended: an offset for each partition."""

    def describe(self) -> str:
        return "that of an answer: an object of partitions and offsets"

    def to_internal_value(self, data: Any) -> Any:
        try:
            loaded = json.loads(super().to_internal_value(data))
        except ValueError:
            self.fail("invalid")
        if not isinstance(loaded, dict) or not 0 < len(loaded) <= _MOST_PARTITIONS:
            self.fail("invalid")
        for key, at in loaded.items():
            if not (key.isascii() and key.isdigit() and len(key) < 10 and type(at) is int and 0 <= at <= _LARGEST):
                self.fail("invalid")
        return loaded


class RegistryField(StringField):
    def describe(self) -> str:
        return "an http(s) address without user and password"

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        parts = urlsplit(text)
        if text and (parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password):
            self.fail("invalid")
        return text


def _text() -> StringField:
    too_long = f"must have at most {_LONGEST} characters"
    return StringField(default="", allow_blank=True, trim_whitespace=False, max_length=_LONGEST, refusal=too_long)


def _default_place(fields: Mapping[str, Any]) -> str:
    return next((name for name in _VALUES if name in fields), PLACES[0])


class RecordSearchShape(QueryShape):
    """`from`: where to start, by default at `offset` or `time` if one is given, otherwise with the latest."""

    from_ = OneOfField(choices=PLACES, default=PLACES[0])
    offset = IntegerField(default=None, min_value=0, max_value=_LARGEST)
    time = MomentField(default=None)
    partition = IntegerField(default=None, min_value=0, max_value=2**31 - 1)
    key = _text()
    contains = _text()
    where = _text()
    isolation = OneOfField(choices=LEVELS, default=LEVELS[0])
    limit = IntegerField(default=USUAL, min_value=1, max_value=MOST)
    cursor = CursorField(default=None, trim_whitespace=False)
    registry = RegistryField(default="", allow_blank=True, max_length=_LONGEST)
    connector = StringField(default="", allow_blank=True, trim_whitespace=False)

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value({"from": _default_place(data), **data})

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        place = attrs["from"]
        if place in _VALUES and attrs[place] is None:
            raise ValidationError({place: [f"must be given where from is {place}"]})
        return attrs


FIELDS: Final = tuple(RecordSearchShape().fields)


@dataclass(frozen=True, slots=True)
class RecordSearch:
    """A page of records. cursor: where the last page of the same search ended."""

    place: str = "latest"
    value: int = 0
    partition: int | None = None
    key: str | None = None
    contains: str = ""
    where: str = ""
    isolation: str = LEVELS[0]
    limit: int = USUAL
    cursor: Mapping[str, int] | None = None
    registry: str = field(default="", repr=False)

    @staticmethod
    def of(query: Mapping[str, Any]) -> "RecordSearch":
        """Make it from the data that `RecordSearchShape` has validated."""
        place = query["from"]
        filters = {name: query[name] for name in ("partition", "contains", "where", "isolation", "limit", "cursor")}
        value = query[place] if place in _VALUES else 0
        return RecordSearch(place, value, key=query["key"] or None, registry=query["registry"], **filters)

    @staticmethod
    def parse(parameters: Mapping[str, str]) -> "RecordSearch":
        """Parse a form, which sends all of its fields: the empty ones, and places that `from` does not select, do not
        count. Raises `ConnectError` (400) that names the field.
        """
        fields = {name: text.strip() if name in _TRIMMED else text for name, text in parameters.items()}
        fields = {name: text for name, text in fields.items() if text or name not in _MAY_BE_EMPTY}
        place = fields.get("from", _default_place(fields))
        fields = {name: text for name, text in fields.items() if name == place or name not in _VALUES}
        return RecordSearch.of(check(RecordSearchShape, {**fields, "from": place}))

    @property
    def words(self) -> str:
        """Describe the request for the audit trail, without the searched values."""
        place = self.place if self.place in ("latest", "earliest") else f"{self.place} {self.value}"
        parts = [f"from {place}", f"as {self.isolation}"]
        parts += [f"partition {self.partition}"] if self.partition is not None else []
        parts += [name for name in ("key", "contains", "where") if getattr(self, name)]
        return ", ".join(parts)

    def question(self, reader: TopicReader) -> ReadRecords:
        return ReadRecords(
            **reader.question(),
            start={"from": self.place, "value": self.value, "cursor": self.cursor},
            partitions=None if self.partition is None else [self.partition],
            records=self.limit,
            committed_only=self.isolation == LEVELS[0],
            key=self.key,
            contains=self.contains,
            where=self.where,
            registry=self.registry,
        )
