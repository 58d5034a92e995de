"""What goes through Redis: JSON, encrypted and authenticated.

Who only reaches Redis can neither read it nor give orders.

Content type `application/x-ringfence`; the payload is AES-256-GCM over JSON (`ringfence.encryption`). Each message
carries the task's name and id in it: a payload that is put under another name or id is refused, and so is one that
comes a second time. A message that is not ours is dropped with a warning and never runs.
"""

import logging
import threading
from collections import OrderedDict
from typing import Any, Final

from celery import Celery, Task, signals
from celery.exceptions import Ignore
from kombu.serialization import register
from kombu.utils.json import dumps, loads

from ringfence.encryption import NoKey, Purpose, keyring

log = logging.getLogger(__name__)

NAME: Final = "ringfence"
ANSWER_SECONDS: Final = 120
"""How long an answer waits in Redis for somebody who reads it."""

_CONTENT_TYPE: Final = "application/x-ringfence"
_BOUND: Final = "ringfence_bound"
_REMEMBERED: Final = 100_000


def encode(value: object) -> str:
    """Raises `NoKey`."""
    return keyring().encrypt(Purpose.MESSAGES, dumps(value).encode())  # type: ignore[no-untyped-call]


def decode(payload: str | bytes) -> Any:
    """Raises ValueError for what was not encoded with a key of ours."""
    try:
        return loads(keyring().decrypt(Purpose.MESSAGES, payload if isinstance(payload, str) else payload.decode()))  # type: ignore[no-untyped-call]
    except NoKey as error:
        raise ValueError(str(error)) from error


class Forged(Ignore):  # type: ignore[misc]
    """A payload of ours under another task's name or id, or once more. No result is stored for it."""


class _Seen:
    """Ids of messages that were taken here. Bounded: an older one is past its deadline by far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, message: str) -> bool:
        """False where it was there already."""
        with self._lock:
            if message in self._ids:
                return False
            self._ids[message] = None
            while len(self._ids) > _REMEMBERED:
                self._ids.popitem(last=False)
            return True


_seen = _Seen()


class BoundTask(Task):  # type: ignore[misc]
    """A task that runs only what was sent to it, once."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request = self.request
        if not request.called_directly:
            bound = getattr(request, _BOUND, None)
            if bound != [self.name, request.id] or not _seen.add(request.id):
                log.warning("A message for %s with the id of another, or for the second time, was dropped", self.name)
                raise Forged(
                    f"This message for {self.name} was sent as another one, or has come before: it was dropped"
                )
        return self.run(*args, **kwargs)


@signals.before_task_publish.connect(weak=False)  # type: ignore[untyped-decorator]
def _bind(sender: str | None = None, body: Any = None, headers: dict[str, Any] | None = None, **_: object) -> None:
    """Put name and id into what is encrypted, and no arguments into the headers, which are not."""
    if headers is None or not isinstance(body, tuple):
        return
    body[2][_BOUND] = [sender, headers["id"]]
    headers.update(argsrepr="", kwargsrepr="")


def use(app: Celery) -> None:
    """Have an application send and take such messages only."""
    app.conf.update(
        accept_content=[NAME],
        result_accept_content=[NAME],
        task_serializer=NAME,
        result_serializer=NAME,
        # Orders to workers themselves (shutdown, rate limits) come in clear, and nobody here gives any.
        worker_enable_remote_control=False,
    )


register(NAME, encode, decode, content_type=_CONTENT_TYPE, content_encoding="utf-8")  # type: ignore[no-untyped-call]
