"""What every kind of destination is. Errors contain nothing of an address except its host, and no secret."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

URL, SECRET, RECIPIENTS = "url", "secret", "recipients"


class NotSent(Exception):
    """A try that failed. final: another try would fail as well; status: of the answer, 0 if there was none."""

    def __init__(self, message: str, *, final: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.final = final
        self.status = status


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A destination, with its secrets in clear text."""

    kind: str
    url: str
    secret: str
    recipients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Channel:
    """A kind of destination. word: its name for people; fields: which of URL, SECRET and RECIPIENTS it has.

    send: makes one try with the number of the delivery, and returns the answer's status. url: the address where none is
    given, "" if one must be; makes_secret: a missing secret is made, otherwise it must be given.
    """

    kind: str
    word: str
    fields: tuple[str, ...]
    send: Callable[[Endpoint, Mapping[str, Any], int], int]
    url: str = ""
    makes_secret: bool = False
