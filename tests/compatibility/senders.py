"""Senders of webhooks, as a web process brings their requests to the task that runs now."""

import asyncio
import random
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from ringfence.connectors.api import Endpoint
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import topic_names
from ringfence.fencing.topics.status import StatusState, apply, decode
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.web.hooks.link import Link, Unreachable

_SENDERS: Final = 20
_PAUSE_S: Final = 0.02
_LOST: Final = 0.1
"""The share of answers that a sender loses, so that it sends once more."""


def status_topic(connector: str) -> str:
    """Of a connector that the compatibility suite runs."""
    return f"ringfence-testing-{connector}-status"


class Senders:
    """They try each text until it is answered with 2xx, on a thread of their own. `close` them."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection, self._topic = connection, topic
        self._waiting: deque[str] = deque()
        self._link: Link | None = None
        self._over = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="senders", daemon=True)
        self._thread.start()

    def send(self, texts: Sequence[str]) -> None:
        """Returns at once. A text is its own idempotency key."""
        self._waiting.extend(texts)

    def close(self) -> None:
        """Raises what went wrong with a sender."""
        self._over = True
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            self._failure = error

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            for number in range(_SENDERS):
                group.create_task(self._send(random.Random(number)))
        if self._link is not None:
            self._link.close()

    async def _follow(self) -> None:
        while not self._over:
            found = await asyncio.to_thread(self._find_task)
            if found is not None and (self._link is None or self._link.closed or self._link.endpoint != found):
                if self._link is not None:
                    self._link.close()
                self._link = Link(found)
            await asyncio.sleep(0.1)

    def _find_task(self) -> Endpoint | None:
        """Where the newest task listens; None before the connector's first start."""
        state = StatusState()
        if not topic_names(self._connection, Deadline.after(30), self._topic):
            return None
        log = TopicLog(self._connection, self._topic)
        try:
            for record in log.read_to_end(Deadline.after(30)):
                state = apply(state, decode(record.key, record.value))
        finally:
            log.close()
        return next((task.endpoint for task in state.tasks.values()), None)

    async def _send(self, chance: random.Random) -> None:
        while not self._over:
            if not self._waiting:
                await asyncio.sleep(_PAUSE_S)
                continue
            text = self._waiting.popleft()
            again = 1 + (chance.random() < _LOST)
            while again and not self._over:
                again -= await self._try(text)
                await asyncio.sleep(0 if again == 0 else _PAUSE_S)

    async def _try(self, text: str) -> bool:
        """Whether the task has confirmed it."""
        if self._link is None:
            return False
        try:
            await self._link.open()
            answer = await self._link.ask([("idempotency-key", text)], text.encode(), 5)
        except Unreachable:
            return False
        assert answer["status"] in (200, 503), answer
        return bool(answer["status"] == 200)
