"""Why a connection fails, in words: from the exception of any client, which often names only a code."""

import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from ringfence.connectors.plural_forms import write_count
from ringfence.connectors.sdk.names import list_first


class Cause(StrEnum):
    """What stands between a connector and its source."""

    NAME = "name"
    REFUSED = "refused"
    SILENT = "silent"
    CERTIFICATE = "certificate"
    LOGIN = "login"
    PERMISSION = "permission"
    DATABASE = "database"


class Diagnosis(NamedTuple):
    """text: one or more sentences, for users."""

    cause: Cause
    text: str


_WORDS: Final = {
    Cause.NAME: "The name of {where} is not known here. Check its spelling, and that the worker can resolve it.",
    Cause.REFUSED: "Nothing listens at {where}: the connection is refused. Check the port, and that the server runs.",
    Cause.SILENT: "No answer from {where}. Check the address and the port; a firewall may drop the packets.",
    Cause.CERTIFICATE: "The certificate of {where} is not trusted here. Give its CA, or correct the name.",
    Cause.LOGIN: "The login is refused by {where}. Check the user and the password.",
    Cause.PERMISSION: "The login is valid for {where}, but lacks a permission that the connector needs.",
    Cause.DATABASE: "There is no database of this name at {where}.",
}
_TEXTS: Final = (
    (Cause.NAME, "name or service not known|could not translate host name|nodename nor servname|name resolution|"
     "cannot be resolved|getaddrinfo failed|no address associated"),
    (Cause.CERTIFICATE, "certificate|unknown ca|self-signed"),
    (Cause.LOGIN, "authentication failed|no password supplied|role \".*\" does not exist|"
     "access denied for user(?!.*to database)|no pg_hba.conf entry|invalid (user|credentials|token)|unauthorized"),
    (Cause.DATABASE, "database \".*\" does not exist|unknown database"),
    (Cause.PERMISSION, "permission denied|access denied|not permitted|command denied|must be superuser|forbidden"),
    (Cause.REFUSED, "connection refused|actively refused"),
    (Cause.SILENT, "timed out|timeout expired|timeout|no route to host|network is unreachable|host is down"),
)  # fmt: skip
_PATTERNS: Final = [(cause, re.compile(text, re.IGNORECASE)) for cause, text in _TEXTS]
_MOST: Final = 4000
"""The characters of a message that are searched."""
_SHOWN: Final = 5
"""The names in a summary."""
_TYPES: Final[tuple[tuple[type[BaseException], Cause], ...]] = (
    (socket.gaierror, Cause.NAME),
    (ssl.SSLCertVerificationError, Cause.CERTIFICATE),
    (ConnectionRefusedError, Cause.REFUSED),
    (TimeoutError, Cause.SILENT),
)


def diagnose(error: BaseException, where: str) -> Diagnosis | None:
    """Return what an exception, or one that caused it, says; None if it says none of this.

    where: what was to be reached, as in "db.example.com:5432".
    """
    chain = list(_chain(error))
    by_type = next((cause for each in chain for kind, cause in _TYPES if isinstance(each, kind)), None)
    cause = by_type or find_cause(" ".join(map(str, chain)))
    return None if cause is None else Diagnosis(cause, describe(cause, where))


def find_cause(message: str) -> Cause | None:
    """Return what a client's message says; None if it says none of this."""
    return next((cause for cause, pattern in _PATTERNS if pattern.search(message[:_MOST])), None)


def describe(cause: Cause, where: str) -> str:
    """Return the cause in words."""
    return _WORDS[cause].format(where=where)


def summarise(noun: str, names: Sequence[str], *, more: bool = False) -> str:
    """Return what a source has, for `Examination.summary`: "12 tables: a, b, c, d, e and 7 more".

    more: there are more than these, which were not all listed: "1,000 or more files: …".
    """
    if not names:
        return f"no {noun}s"
    count = f"{len(names):,} or more {noun}s" if more else write_count(len(names), noun)
    return f"{count}: {list_first(names, _SHOWN)}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and what led to it."""
    ids: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in ids:
        ids.add(id(each))
        yield each
        each = each.__cause__ or each.__context__
