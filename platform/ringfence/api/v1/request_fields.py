"""The input of `/api/v1`: numbers and times in queries, and serializers, in which each value must have the field's own
JSON type. Otherwise a 400 says what is required.

DRF's own fields convert: they accept "yes" as true, "3" as an integer, and 3 as a string. These refuse a value of
another type, so that clients notice their mistake. Bodies come from `api.base`, which keeps a number's text
(`Number`); these fields return Python's numbers.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError

from ringfence.api import connector_writes
from ringfence.api.base import Number, config_of, plain
from ringfence.connectors.plural_forms import write_noun
from ringfence.engine.leader.commands.offsets import OffsetEntry
from ringfence.http.errors import bad_request

BIGGEST = 2**63 - 1


def whole(text: str, what: str, lowest: int = 0, highest: int = BIGGEST) -> int:
    """Parse an integer of a query. Raises a 400 that names it if it is invalid or out of bounds."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and lowest <= int(text) <= highest):
        raise bad_request(f"{what} must be an integer from {lowest} to {highest}.")
    return int(text)


def moment(text: str, what: str) -> int:
    """Parse a time of a query. Raises a 400 that names it if it is invalid."""
    try:
        return parse_moment(text)
    except ValueError:
        raise bad_request(f"{what} must be {MOMENT}.") from None


MOMENT = "milliseconds since the epoch or a time like 2025-03-01T12:00:00Z"


def parse_moment(text: str) -> int:
    """Return milliseconds since the epoch, from that number or ISO 8601 (UTC without a zone). Raises ValueError."""
    if text.isascii() and text.isdigit():
        if len(text) >= 20 or int(text) > BIGGEST:
            raise ValueError("too large")
        return int(text)
    moment = dt.datetime.fromisoformat(text)
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    try:
        return int(zoned.timestamp() * 1000)
    except OverflowError as error:
        raise ValueError(str(error)) from error


_GENERAL = "non_field_errors"
"""DRF's key for errors of several fields together: whole sentences, without a field's name."""


class _Strict(serializers.Field[Any, Any, Any, Any]):
    """For any error, the message says what the value must be (`refusal`, without the field's name)."""

    must_be = ""

    def __init__(self, *, refusal: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.refusal = refusal

    def describe(self) -> str:
        """Describe what the value must be."""
        return self.must_be

    def run_validation(self, data: Any = serializers.empty) -> Any:
        try:
            return super().run_validation(data)
        except ValidationError as error:
            if isinstance(error.detail, dict):  # the error is about a part of the value, and already names it
                raise
            raise ValidationError(self.refusal or f"must be {self.describe()}") from None


class StringField(_Strict, serializers.CharField):
    """A string without surrounding spaces, unless `trim_whitespace` is False."""

    def describe(self) -> str:
        if self.max_length is not None:
            return f"a string of {0 if self.allow_blank else 1} to {self.max_length} characters"
        return "a string" if self.allow_blank else "a string, and not an empty one"

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or isinstance(data, Number):
            self.fail("invalid")
        if self.max_length is not None and len(data) > self.max_length:  # spaces count, as in the schema
            self.fail("max_length", max_length=self.max_length)
        return str(super().to_internal_value(data))


class ReasonField(StringField):
    """The reason for a change, for the audit trail."""

    def __init__(self, **options: Any) -> None:
        refusal = "must say in up to 1000 characters why this is done: it goes into the audit trail"
        super().__init__(**{"max_length": 1000, "refusal": refusal, **options})


class OneOfField(_Strict, serializers.ChoiceField):
    def describe(self) -> str:
        return f"one of {', '.join(map(str, self.choices))}"

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or isinstance(data, Number):
            self.fail("invalid_choice", input=data)
        return super().to_internal_value(data)


class FlagField(_Strict, serializers.BooleanField):
    must_be = "true or false"

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class IntegerField(_Strict, serializers.IntegerField):
    def describe(self) -> str:
        lowest, highest = self.min_value, self.max_value
        if highest is not None:
            return f"an integer from {lowest} to {highest}"
        return "an integer" if lowest is None else f"an integer from {lowest} on"

    def to_internal_value(self, data: Any) -> int:
        value = plain(data)
        if not isinstance(data, Number | int) or type(value) is not int:
            self.fail("invalid")
        return value


class MomentField(StringField):
    """A time: milliseconds since the epoch, or ISO 8601 (UTC without a zone). Returns milliseconds."""

    def describe(self) -> str:
        return MOMENT

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        try:
            return parse_moment(text)
        except ValueError:
            self.fail("invalid")


class NumberField(_Strict, serializers.FloatField):
    def describe(self) -> str:
        return "a number" if self.max_value is None else f"a number from {self.min_value} to {self.max_value}"

    def to_internal_value(self, data: Any) -> float:
        value = plain(data)
        if not isinstance(data, Number | int | float) or isinstance(value, bool):
            self.fail("invalid")
        return float(super().to_internal_value(value))


class JsonField(_Strict, serializers.JSONField):
    """Any JSON value, with Python's numbers."""

    must_be = "a JSON value"

    def to_internal_value(self, data: Any) -> Any:
        return plain(data)


class ListField(_Strict, serializers.ListField):
    must_be = "a list"


class MapField(_Strict, serializers.DictField):
    must_be = "a JSON object"


class SettingsField(MapField):
    """A connector configuration: flat, with strings. A mask stands for the value stored under the connector's name."""

    child = serializers.CharField(allow_blank=True)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        return config_of(data)


class RequestShape(serializers.Serializer[Any]):
    """A JSON object with exactly these fields. A field whose name is a Python keyword ends with `_` here."""

    part = "field"

    def get_fields(self) -> dict[str, Any]:
        return {name.removesuffix("_"): field for name, field in super().get_fields().items()}

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data is None or (data is serializers.empty and self.required):
            raise ValidationError("must be a JSON object")
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise ValidationError("must be a JSON object")
        names = [name for name, field in self.fields.items() if not field.read_only]
        if unknown := sorted(set(data) - set(names)):
            allowed = f"use some of {', '.join(names)}" if names else "none is known here"
            raise ValidationError(
                {_GENERAL: [f"Unknown {write_noun(len(unknown), self.part)} {', '.join(unknown)}: {allowed}"]}
            )
        return super().to_internal_value(data)


class QueryShape(RequestShape):
    """The parameters of a query, whose values are all strings: numbers, true and false are parsed."""

    part = "query parameter"

    def to_internal_value(self, data: Any) -> Any:
        return super().to_internal_value({name: self._read(name, text) for name, text in data.items()})

    def _read(self, name: str, text: str) -> object:
        match self.fields.get(name):
            case FlagField():
                return {"true": True, "false": False}.get(text, text)
            case IntegerField() if text.isascii() and text.removeprefix("-").isdigit():
                return Number(text)
            case _:
                return text


class OffsetChangeShape(RequestShape):
    """The source offset of a source partition; null or missing deletes it."""

    partition = JsonField()
    offset = JsonField(allow_null=True, required=False)


class OffsetsField(ListField):
    """Changes of source offsets, as in Kafka Connect's PATCH …/offsets."""

    child = OffsetChangeShape()

    def to_internal_value(self, data: Any) -> list[OffsetEntry]:
        return connector_writes.offsets_of({"offsets": data})


def first_error(detail: Any, path: str = "") -> str:
    """Return the first of a serializer's errors as a sentence: `letters[0].offset must be an integer from 0 to 9.`"""
    if isinstance(detail, ErrorDetail | str):
        return f"{path} {detail}.".lstrip()
    if isinstance(detail, Mapping):
        name, below = next((name, below) for name, below in detail.items() if below)
        if name == _GENERAL:
            return first_error(below[0], "" if str(below[0])[0].isupper() else path or "The request body")
        return first_error(below, f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}".lstrip("."))
    number, below = next((number, below) for number, below in enumerate(detail) if below)
    return first_error(below, path or "The request body" if isinstance(below, ErrorDetail) else f"{path}[{number}]")


def check(shape: type[RequestShape], value: object) -> dict[str, Any]:
    """Return the fields, validated and completed by the shape. Raises `ConnectError` (400) with the first error."""
    try:
        checked: dict[str, Any] = shape().run_validation(value)
    except ValidationError as error:
        raise bad_request(first_error(error.detail)) from None
    return checked
