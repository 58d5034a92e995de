"""The request that something is done for: an id, and the caller's trace context (W3C, `traceparent`).

It leads from an HTTP request to the leader's command, to the records that the leader writes, and from those to the
fencing round, the attempts of tasks, and the log lines of all of them. It decides nothing.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

HEADER: Final = "ringfence.request"
"""The header with the id, of a record in the config topic."""
TRACEPARENT: Final = "traceparent"
"""The header with the trace context, of HTTP requests and of records."""

_SANE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,99}")
_TRACE: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class RequestContext(NamedTuple):
    """id: "" for none; trace: a `traceparent`, "" for none."""

    id: str = ""
    trace: str = ""


NOBODYS: Final = RequestContext()

_current: ContextVar[RequestContext | None] = ContextVar("request context", default=None)
_of_process: list[RequestContext] = [NOBODYS]


def new_id() -> str:
    return uuid.uuid4().hex


def read_id(text: object) -> str:
    """Return an id that somebody else has chosen; "" if it is none that can stand in a log line and in a header."""
    return text if isinstance(text, str) and _SANE.fullmatch(text) else ""


def read_trace(text: object) -> str:
    """Return a `traceparent` of somebody else; "" if it is none."""
    return text if isinstance(text, str) and _TRACE.fullmatch(text) else ""


def read(value: object) -> RequestContext:
    """Read the pair that another process has sent; nobody's if it is none."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return NOBODYS
    return RequestContext(read_id(value[0]), read_trace(value[1]))


def current() -> RequestContext:
    """Return what this thread works for, or this process if it works for one request."""
    context = _current.get()
    return _of_process[0] if context is None else context


def declare(context: RequestContext) -> None:
    """Set what this process works for, in all its threads."""
    _of_process[:] = [context]


@contextmanager
def working_for(context: RequestContext) -> Iterator[None]:
    """Work for this request within the block."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def to_headers(context: RequestContext) -> list[tuple[str, bytes]]:
    """Return the headers of a record that is written for the request; none for nobody's."""
    values = ((HEADER, context.id), (TRACEPARENT, context.trace))
    return [(name, value.encode()) for name, value in values if value]


def of_headers(headers: Sequence[tuple[str, bytes | None]]) -> RequestContext:
    """The inverse of `to_headers`."""
    if not headers:
        return NOBODYS
    texts = {name: value.decode("latin-1") for name, value in headers if value and name in (HEADER, TRACEPARENT)}
    return RequestContext(read_id(texts.get(HEADER)), read_trace(texts.get(TRACEPARENT))) if texts else NOBODYS
