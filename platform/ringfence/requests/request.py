"""A request between processes, and its codec: the fields of a dataclass, as JSON.

The commands of web processes to the leader are in `engine.leader.commands`, their questions to any worker in
`engine.questions`, and the calls of a worker to its plugin processes in `engine.plugins.calls`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import NoneType, UnionType
from typing import (
    ClassVar,
    Final,
    Generic,
    Literal,
    NotRequired,
    Self,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)


class Refusal(Exception):
    """The request was not carried out, or its outcome is unknown. `status` is the HTTP status, the message is for
    people.

    retry: the same request may succeed soon; passing: and nothing was changed, so the sender repeats it itself.
    """

    def __init__(self, status: int, message: str, *, retry: bool = False, passing: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry = retry or passing
        self.passing = passing

    def answer(self) -> dict[str, object]:
        """Return the JSON that is sent to the web process."""
        fields = {"ok": False, "status": self.status, "message": self.message}
        return {**fields, "retry": self.retry, "passing": self.passing}

    @staticmethod
    def parse(answer: Mapping[str, object]) -> "Refusal":
        """Parse a worker's answer that is not ok."""
        status = answer.get("status")
        return Refusal(
            status if isinstance(status, int) else 500,
            str(answer.get("message") or ""),
            retry=bool(answer.get("retry")),
            passing=bool(answer.get("passing")),
        )


Answer = TypeVar("Answer", covariant=True)
Value = TypeVar("Value")


def always(default: Value) -> Value:
    """Declare a field that may be missing in a received request, and is sent even with its default."""
    return field(default=default, metadata={"always": True})


class MalformedRequest(ValueError):
    """The received value is not such a request. The message names the field."""


@dataclass(frozen=True)
class Request(Generic[Answer]):
    """A request. Its fields are the parameters; `Answer` is the JSON value of the answer."""

    name: ClassVar[str]

    def to_wire(self) -> dict[str, object]:
        """Return the fields, without those that have their default."""
        values = {field.name: (getattr(self, field.name), field) for field in fields(self)}
        return {name: value for name, (value, field) in values.items() if field.metadata or value != field.default}

    @classmethod
    def from_wire(cls, body: Mapping[str, object]) -> Self:
        """Parse the fields. Raises `MalformedRequest`: the sender may have another version."""
        hints = _hints(cls)
        if unknown := body.keys() - hints.keys():
            raise MalformedRequest(f"{cls.name} has no field {', '.join(sorted(unknown))}")
        for name, value in body.items():
            if not _fits(value, hints[name]):
                raise MalformedRequest(f"{cls.name}: {name} cannot be a value of type {type(value).__name__}")
        try:
            return cls(**body)
        except TypeError as error:
            raise MalformedRequest(f"{cls.name}: {error}") from error


class SentCommand(TypedDict):
    """A command as it is sent. body: its fields; request_id: the same if a client library sends it again."""

    kind: str
    connector: str | None
    body: Mapping[str, object]
    user: NotRequired[str]
    request_id: NotRequired[str]


@dataclass(frozen=True)
class Command(Request[Answer]):
    """`health`: it only asks whether there is a leader, and is always handled at once."""

    health: ClassVar[bool] = False

    @property
    def on(self) -> str | None:
        """The connector that it is for."""
        return None

    def body(self) -> dict[str, object]:
        """Its fields without the connector's name."""
        return {name: value for name, value in self.to_wire().items() if name != "connector"}


ACCOUNT: Final = "account"
"""The argument beside a question's fields: whose it is, so that workers share places fairly. None for nobody's."""


@dataclass(frozen=True)
class Question(Request[Answer]):
    """seconds: how long its sender waits; early: how many seconds before that the worker answers with what it has.

    again: whether it is sent a second time if a worker says that this may help.
    """

    seconds: ClassVar[float] = 30.0
    early: ClassVar[float] = 0.0
    again: ClassVar[bool] = True

    @classmethod
    def task(cls) -> str:
        """Return the name of the Celery task that answers it."""
        return f"ringfence.plugins.{cls.name}"


_known_hints: Final[dict[type, Mapping[str, object]]] = {}


def _hints(cls: type[Request[object]]) -> Mapping[str, object]:
    """Return the fields' types, which are looked up once: each request is parsed by them, in plugin processes too."""
    if cls not in _known_hints:
        hints = get_type_hints(cls)
        _known_hints[cls] = {field.name: hints[field.name] for field in fields(cls)}
    return _known_hints[cls]


def _fits(value: object, hint: object) -> bool:
    """Return whether a JSON value has a field's type."""
    origin, parameters = get_origin(hint), get_args(hint)
    if hint is object:
        return True
    if hint in (None, NoneType):
        return value is None
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in parameters)
    if origin is Literal:
        return value in parameters
    if isinstance(hint, type) and is_typeddict(hint):
        return _fits_fields(value, hint)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(each, parameters[1]) for each in value.values())
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(_fits(each, parameters[0]) for each in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is hint


def _fits_fields(value: object, kind: type) -> bool:
    """Return whether it is an object with the fields of a `TypedDict`, and no others."""
    hints = get_type_hints(kind)
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    if not isinstance(value, dict) or not required <= value.keys() <= hints.keys():
        return False
    return all(_fits(each, hints[name]) for name, each in value.items())
