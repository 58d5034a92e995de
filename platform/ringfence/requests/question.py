"""The base class of the questions of a web process to a worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ringfence.requests.request import Answer, Request

Json = dict[str, Any]
Config = Mapping[str, str]

ACCOUNT: Final = "account"
"""The argument beside a question's fields: whose it is, so that workers share places fairly. None for nobody's."""

READ_EARLY: Final = 3.0
REPLAY_EARLY: Final = 5.0


@dataclass(frozen=True)
class Question(Request[Answer]):
    """seconds: how long its sender waits; early: how many seconds before that the worker answers with what it has.

    again: whether it is sent a second time if a worker says that this may help.
    """

    seconds: ClassVar[float] = 30.0
    early: ClassVar[float] = 0.0
    again: ClassVar[bool] = True

    @property
    def task(self) -> str:
        """The Celery task that handles it."""
        return task_of(type(self))


def task_of(kind: type[Question[Any]]) -> str:
    return f"ringfence.plugins.{kind.name}"
