"""Encrypts and authenticates the Celery messages and results in Redis.

Access to Redis alone lets nobody read a message or run a task.

The content type is `application/x-ringfence`, the payload AES-256-GCM over JSON (`ringfence.encryption`). Each payload
contains its task's name and id. A payload under another name or id is refused, and so is one that arrives twice. A
message that was not encrypted with the platform's keys is dropped with a warning and never runs.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from celery import Celery, Task, signals
from celery.exceptions import Ignore
from kombu.serialization import register
from kombu.utils.json import dumps, loads

from ringfence import redis_broker, telemetry
from ringfence.encryption import NoKey, Purpose, keyring
from ringfence.fencing import request_context

log = logging.getLogger(__name__)

NAME: Final = "ringfence"
ANSWER_SECONDS: Final = 120
"""How long a result is kept in Redis."""

_CONTENT_TYPE: Final = "application/x-ringfence"
_BOUND: Final = "ringfence_bound"
_REQUEST: Final = "ringfence_request"
"""The request that a message is sent for: beside its arguments, so that workers of other versions may ignore it."""
_REMEMBERED: Final = 100_000


def encode(value: object) -> str:
    """Encrypt a value as JSON. Raises `NoKey`."""
    return keyring().encrypt(Purpose.MESSAGES, dumps(value).encode())  # type: ignore[no-untyped-call]


def decode(payload: str | bytes) -> Any:
    """The inverse of `encode`. Raises ValueError for a payload that was not encrypted with one of the keys."""
    try:
        return loads(keyring().decrypt(Purpose.MESSAGES, payload if isinstance(payload, str) else payload.decode()))  # type: ignore[no-untyped-call]
    except NoKey as error:
        raise ValueError(str(error)) from error


class Forged(Ignore):  # type: ignore[misc]
    """A valid payload was sent under another task's name or id, or a second time. Celery stores no result for it."""


class _RecentIds:
    """The ids of the latest messages that this process has run. An id that was dropped is long past its deadline."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, message: str) -> bool:
        """Add an id; return False if it was already there."""
        with self._lock:
            if message in self._ids:
                return False
            self._ids[message] = None
            while len(self._ids) > _REMEMBERED:
                self._ids.popitem(last=False)
            return True


_recent_ids = _RecentIds()


_behind_answer: ContextVar[list[Callable[[], object]] | None] = ContextVar("behind the answer", default=None)


def do_behind_answer(work: Callable[[], object]) -> None:
    """Do it once the answer of this thread's task is stored; at once outside of a task."""
    collected = _behind_answer.get()
    if collected is None:
        work()
    else:
        collected.append(work)


class BoundTask(Task):  # type: ignore[misc]
    """A task that runs only messages that were sent to it, each once. Raises `Forged` for others."""

    def after_return(self, *_: object) -> None:
        """Celery calls this once the result is stored, or cannot be."""
        collected = _behind_answer.get() or ()
        _behind_answer.set(None)
        for work in collected:
            work()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request = self.request
        if not request.called_directly:
            bound = getattr(request, _BOUND, None)
            if bound != [self.name, request.id] or not _recent_ids.add(request.id):
                log.warning("Dropped a message for %s: it has another message's id, or it was sent twice", self.name)
                raise Forged(f"A message for {self.name} was dropped: it has another message's id or was sent twice")
            _behind_answer.set([])
        sender = request_context.read(getattr(request, _REQUEST, None))
        with request_context.working_for(sender), telemetry.span_of(sender, self.name, "consumer"):
            return self.run(*args, **kwargs)


@signals.before_task_publish.connect(weak=False)  # type: ignore[untyped-decorator]
def _bind(sender: str | None = None, body: Any = None, headers: dict[str, Any] | None = None, **_: object) -> None:
    """Add the task's name and id to the encrypted body, and the request that it is sent for, and remove the arguments
    from the plain-text headers.
    """
    if headers is None or not isinstance(body, tuple):
        return
    body[2][_BOUND] = [sender, headers["id"]]
    body[2][_REQUEST] = list(request_context.current())
    headers.update(argsrepr="", kwargsrepr="")


def use(app: Celery) -> None:
    """Configure an application to send and accept only encrypted messages."""
    redis_broker.use()
    app.conf.update(
        accept_content=[NAME],
        result_accept_content=[NAME],
        task_serializer=NAME,
        result_serializer=NAME,
        # Celery's remote control (shutdown, rate limits) is in plain text, and nothing here uses it.
        worker_enable_remote_control=False,
    )


register(NAME, encode, decode, content_type=_CONTENT_TYPE, content_encoding="utf-8")  # type: ignore[no-untyped-call]
