"""Finds the task that receives a connector's requests, with at most one query per second, and its connection."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import Endpoint
from ringfence.connectors.sdk.features import features_of
from ringfence.projection.endpoints import find_endpoint
from ringfence.projection.models import Connector
from ringfence.web.hooks.link import Link

_FRESH_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.25
"""After a task could not be reached, before it is tried again: until then requests are answered at once."""
_MOST_NAMES: Final = 10_000
_MOST_QUERIES: Final = 8
"""The most queries at once about names that are no webhooks, since anyone may request any name: pages need threads."""


@dataclass(frozen=True, slots=True)
class HookState:
    """The content of the rows. is_hook: the connector exists, and receives requests when it runs."""

    is_hook: bool
    endpoint: Endpoint | None
    at: float


def is_hook_class(class_name: str) -> bool:
    """Whether connectors of this class take requests."""
    return features_of(class_name).receives_requests


def look_up(name: str) -> tuple[bool, Endpoint | None]:
    """Return from the database whether such a webhook exists, and where its task listens."""
    class_name = Connector.objects.filter(name=name, known=True).values_list("class_name", flat=True).first()
    if class_name is None or not is_hook_class(class_name):
        return False, None
    return True, find_endpoint(name)


class Links:
    """The connections of this process, for one event loop."""

    def __init__(self, ask: Callable[[str], Awaitable[tuple[bool, Endpoint | None]]]) -> None:
        self._ask = ask
        self._states: dict[str, HookState] = {}
        self._asking: dict[str, asyncio.Task[HookState]] = {}
        self._links: dict[str, Link] = {}
        self._queries = asyncio.Semaphore(_MOST_QUERIES)

    async def find(self, name: str) -> tuple[bool, Link | None]:
        """Return whether such a webhook exists, and the connection to its task; None if it is not listening.

        Raises database errors. The link is not open yet.
        """
        entry = self._states.get(name)
        if entry is None or time.monotonic() - entry.at > _FRESH_SECONDS:
            entry = await self._refresh(name)
        link = self._links.get(name)
        if link is not None and (link.endpoint != entry.endpoint or (link.closed and not _rests(link))):
            link.close()
            del self._links[name]
            link = None
        if link is None and entry.endpoint is not None:
            link = self._links[name] = Link(entry.endpoint)
        return entry.is_hook, link

    async def _refresh(self, name: str) -> HookState:
        """Query once, however many callers wait."""
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.create_task(self._read(name))
        return await asyncio.shield(asking)

    async def _read(self, name: str) -> HookState:
        before = self._states.get(name)
        try:
            if before is not None and before.is_hook:
                is_hook, endpoint = await self._ask(name)
            else:
                async with self._queries:
                    is_hook, endpoint = await self._ask(name)
        finally:
            self._asking.pop(name, None)
        if len(self._states) >= _MOST_NAMES:
            self._states = {hook: state for hook, state in self._states.items() if state.is_hook}
        entry = self._states[name] = HookState(is_hook, endpoint, time.monotonic())
        return entry


def _rests(link: Link) -> bool:
    return link.failed_at is not None and time.monotonic() - link.failed_at < _AGAIN_SECONDS
