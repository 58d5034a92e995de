"""A request between processes, and its codec: the fields of a dataclass, as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, Self, TypeVar, Union, get_args, get_origin, get_type_hints

Answer = TypeVar("Answer")


def always(default: Answer) -> Answer:
    """A field that may be missing in what comes, and is sent also where it has this value."""
    return field(default=default, metadata={"always": True})


class Malformed(ValueError):
    """What came is not such a request. The message names the field."""


@dataclass(frozen=True)
class Request(Generic[Answer]):
    """Its fields are what is asked; `Answer` is the JSON value that comes back."""

    name: ClassVar[str]

    def to_wire(self) -> dict[str, Any]:
        """The fields, without those that have their default."""
        values = {field.name: (getattr(self, field.name), field) for field in fields(self)}
        return {name: value for name, (value, field) in values.items() if field.metadata or value != field.default}

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Self:
        """Raises `Malformed`: the sender may be of another version."""
        hints = _hints(cls)
        if unknown := body.keys() - hints.keys():
            raise Malformed(f"{cls.name} has no field {', '.join(sorted(unknown))}")
        for name, value in body.items():
            if not _fits(value, hints[name]):
                raise Malformed(f"{cls.name}: {name} cannot be a value of type {type(value).__name__}")
        try:
            return cls(**body)
        except TypeError as error:
            raise Malformed(f"{cls.name}: {error}") from error


def _hints(cls: type[Request[Any]]) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _fits(value: object, hint: Any) -> bool:
    """Whether a JSON value is of a field's type."""
    origin, parameters = get_origin(hint), get_args(hint)
    if hint in (object, Any):
        return True
    if hint in (None, NoneType):
        return value is None
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in parameters)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(each, parameters[1]) for each in value.values())
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_fits(each, parameters[0]) for each in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is hint
