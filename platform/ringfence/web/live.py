"""One stream of server-sent events per page: tiny "something changed" events; the page fetches its parts itself.

A process subscribes once to Redis and tells all of its pages. Without Redis it looks at the projection's positions
every two seconds instead.
"""

import asyncio
import json
import logging
import weakref
from collections.abc import AsyncIterator

import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import Sum
from django.http import HttpRequest, StreamingHttpResponse
from redis.exceptions import RedisError

from ringfence.access.authorise import authorise, principal_of
from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.access.routes import requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.mirror.models import TopicPosition
from ringfence.mirror.notices import CHANNEL

HEARTBEAT_SECONDS = 15.0
PACE_SECONDS = 1.0
LIST_PACE_SECONDS = 2.0
"""At most one event in this time: a page fetches its part anew for each. The last change is always told."""
_POLL_SECONDS = 2.0
_RETRY_SECONDS = 10.0

log = logging.getLogger(__name__)


class Listener:
    """One open page. `name`: the connector it shows, None for all that `who` may see."""

    def __init__(self, name: str | None, who: Principal = EVERYBODY_HERE) -> None:
        self.name = name
        self.who = who
        self.changed = asyncio.Event()

    def tell(self, names: list[str]) -> None:
        """Names that changed; an empty list means that anything may have."""
        if not names or (bool(self.who.shown(names)) if self.name is None else self.name in names):
            self.changed.set()


class Hub:
    """All open pages of this process's event loop."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, listener: Listener) -> None:
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen())

    def remove(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._task is not None:
            self._task.cancel()
            self._task = None

    def tell(self, names: list[str]) -> None:
        for listener in self._listeners:
            listener.tell(names)

    async def _listen(self) -> None:
        while True:
            try:
                await self._follow_redis()
            except (RedisError, OSError) as error:
                log.info("Redis has no change notices (%s): pages follow the database", type(error).__name__)
                await self._follow_database(_RETRY_SECONDS)

    async def _follow_redis(self) -> None:
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2)
        try:
            async with client.pubsub() as subscription:
                await subscription.subscribe(CHANNEL)
                self.tell([])  # whatever changed while nobody listened
                async for message in subscription.listen():
                    if message["type"] == "message":
                        self.tell(_names(message["data"]))
        finally:
            await client.aclose()

    async def _follow_database(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        before = None
        while loop.time() < until:
            now = await _stamp()
            if now != before:
                self.tell([])
                before = now
            await asyncio.sleep(_POLL_SECONDS)


def _names(data: bytes | str) -> list[str]:
    try:
        names = json.loads(data)
    except ValueError:
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


@sync_to_async
def _stamp() -> object:
    """Something that differs once anything was projected; None while the database is away."""
    try:
        return TopicPosition.objects.aggregate(sum=Sum("applied_offset"))["sum"]
    except DatabaseError:
        return None


_hubs: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


async def stream(name: str | None, who: Principal = EVERYBODY_HERE) -> AsyncIterator[str]:
    """`event: changed` as the pace allows, a comment as heartbeat."""
    listener, here = Listener(name, who), hub()
    pace = LIST_PACE_SECONDS if name is None else PACE_SECONDS
    here.add(listener)
    try:
        yield "retry: 2000\nevent: hello\ndata: .\n\n"
        while True:
            try:
                await asyncio.wait_for(listener.changed.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            listener.changed.clear()
            yield "event: changed\ndata: .\n\n"
            await asyncio.sleep(pace)
    finally:
        here.remove(listener)


@requires(GET=somewhere(Verb.VIEW))
async def events(request: HttpRequest) -> StreamingHttpResponse:
    """`/ui/events?connector=<name>`; without a name, about every connector."""
    name = request.GET.get("connector")
    if name is not None:
        authorise(request, Verb.VIEW, name)
    body = stream(name, principal_of(request))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(body, content_type="text/event-stream", headers=headers)
