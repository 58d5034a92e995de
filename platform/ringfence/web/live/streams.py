"""One stream of server-sent events per page: tiny "something changed" events; the page fetches its parts itself.

A process subscribes once to Redis and tells all of its pages. Without Redis it looks at the projection's positions
every two seconds instead. The events:

- `hello`, at the beginning, and `beat`, while nothing else is told: a page that hears neither knows that it is cut off;
- `changed`: fetch the part again. Data: the time in milliseconds at which this process heard of it; a part that was
  made since then is fresh (`web.fresh`);
- `vital`: what the page's head says about workers, leader, projection, Kafka or Redis has changed;
- `rows` (streams about all connectors only): numbers of some connectors moved. Data: `{"at", "names"}`; names null: of
  many.
"""

import asyncio
import contextlib
import json
import logging
import math
import random
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable

import redis.asyncio
from django.conf import settings
from redis.exceptions import RedisError

from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.projection.change_notifications import ANYTHING, CHANNEL, Notice, decode
from ringfence.web.live import stamps
from ringfence.web.live.rate_control import RateControl

BEAT_SECONDS = 3.0
"""A page that has heard nothing for three of them says so (`SILENT` in live.js), well within 15 seconds."""
RENEWAL_SECONDS = 15.0
"""The right to a stream is asked for again so often."""
TICK_SECONDS = 10.0
"""Lists and the overview are fetched again so often where nothing changes: what was reported grows old by itself. Told
from here and not asked for by each page's own clock, so that all of them get one and the same part."""
SPREAD_SECONDS = 0.015
"""For each open page: over so long they are told of what is no hurry and concerns all of them. The page of a connector
costs about that, and whoever waits for a change of state is not to wait behind two hundred of them."""
BEAT = "event: beat\ndata: .\n\n"
MANY = 60
"""More names than this are not told one by one: a page shows fifty."""
_POLL_SECONDS = 2.0
_RETRY_SECONDS = 10.0
_VITAL_SECONDS = _AUDIT_SECONDS = 1.0

log = logging.getLogger(__name__)


class Listener:
    """One open page. `name`: the connector it shows, None for all that `who` may see. `audit`: it shows the audit
    trail, or what can only be changed with an entry there, and no connectors."""

    def __init__(self, name: str | None, who: Principal = EVERYBODY_HERE, *, audit: bool = False) -> None:
        self.name = name
        self.who = who
        self.audit = audit
        self.changed = asyncio.Event()
        self.urgent = asyncio.Event()
        """Set where more than numbers has changed."""
        self._at_ms = 0
        self._whole = False
        self._vital = False
        self._rows: set[str] = set()

    def tell(self, notice: Notice, at_ms: int = 0) -> None:
        """Wake the page where it shows something of this."""
        if self.audit:
            return
        if self.name is None:
            urgent = whole = notice.other or bool(self.who.filter_names(notice.changed))
            rows = self.who.filter_names(notice.moved)
        else:
            urgent = self.name in notice.changed
            whole, rows = urgent or notice.other or self.name in notice.moved, []
        if urgent:
            self.urgent.set()
        if whole or rows:
            self._at_ms = at_ms
            self._whole = self._whole or whole
            self._rows.update(rows)
            self.changed.set()

    def tell_vital_signs(self, at_ms: int) -> None:
        """The cluster's signs of life have changed, and with them what all states are worth."""
        self._vital = True
        self.urgent.set()
        self.look_again(at_ms)

    def look_again(self, at_ms: int) -> None:
        """Wake the page though nothing was told."""
        self._at_ms = at_ms
        self._whole = True
        self.changed.set()

    def take(self) -> str:
        """The event that tells all that came since the last one."""
        self.changed.clear()
        self.urgent.clear()
        whole, vital, rows = self._whole, self._vital, sorted(self._rows)
        self._whole = self._vital = False
        self._rows.clear()
        head = "event: vital\ndata: .\n\n" if vital else ""
        if whole:
            return f"{head}event: changed\ndata: {self._at_ms}\n\n"
        told = {"at": self._at_ms, "names": rows if len(rows) <= MANY else None}
        return f"event: rows\ndata: {json.dumps(told)}\n\n"


class Hub:
    """All open pages of this process's event loop."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self.pace = RateControl()

    def __len__(self) -> int:
        return len(self._listeners)

    def add(self, listener: Listener) -> None:
        self._listeners.add(listener)
        if not self._tasks or any(task.done() for task in self._tasks):
            self._end()
            duties = (self._listen, self._tick, self._watch_vital_signs, self._watch_audit)
            self._tasks = tuple(asyncio.create_task(duty()) for duty in duties)

    def remove(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners:
            self._end()

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = ()

    def tell(self, notice: Notice) -> None:
        at_ms = int(time.time() * 1000)
        for listener in self._listeners:
            listener.tell(notice, at_ms)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            at_ms = int(time.time() * 1000)
            for listener in self._listeners:
                if listener.name is None:
                    listener.look_again(at_ms)

    async def _watch_vital_signs(self) -> None:
        before = projected = None
        while True:
            now = await stamps.read_vital()
            if before is not None and now != before:
                at_ms = int(time.time() * 1000)
                for listener in self._listeners:
                    listener.tell_vital_signs(at_ms)
            before = now
            if "no-redis" in now:  # one that is frozen breaks no connection, and tells nothing
                projected, last = await stamps.read_projected(), projected
                if projected != last:
                    self.tell(ANYTHING)
            await asyncio.sleep(_VITAL_SECONDS)

    async def _watch_audit(self) -> None:
        before: object = None
        while True:
            if following := [each for each in self._listeners if each.audit]:
                now = await stamps.read_audit()
                if now is not None and now != before:
                    at_ms = int(time.time() * 1000)
                    for listener in following:
                        listener.look_again(at_ms)
                    before = now
            await asyncio.sleep(_AUDIT_SECONDS)

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
                self.tell(ANYTHING)  # whatever changed while nobody listened
                async for message in subscription.listen():
                    if message["type"] == "message":
                        self.tell(decode(message["data"]))
        finally:
            await client.aclose()

    async def _follow_database(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        before = None
        while loop.time() < until:
            now = await stamps.read_projected()
            if now != before:
                self.tell(ANYTHING)
                before = now
            await asyncio.sleep(_POLL_SECONDS)


_hubs: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


Renew = Callable[[], Awaitable[Principal | None]]


async def _always() -> Principal:
    return EVERYBODY_HERE


async def stream(
    name: str | None, who: Principal = EVERYBODY_HERE, renew: Renew = _always, *, audit: bool = False
) -> AsyncIterator[str]:
    """The events of one page, as the pace allows. `renew`: what may be seen now, None for nothing any more.
    `audit`: as of `Listener`.

    It is asked every `RENEWAL_SECONDS`, before the next event; the stream ends with the right to it.
    """
    listener, here, loop = Listener(name, who, audit=audit), hub(), asyncio.get_running_loop()
    told_at = -math.inf
    asked_at = loop.time()
    here.add(listener)
    try:
        yield "retry: 2000\nevent: hello\ndata: .\n\n"
        while True:
            told = True
            try:
                await asyncio.wait_for(listener.changed.wait(), min(BEAT_SECONDS, RENEWAL_SECONDS))
            except TimeoutError:
                told = False
            if loop.time() - asked_at >= RENEWAL_SECONDS:
                now = await renew()
                if now is None:
                    return
                listener.who, asked_at = now, loop.time()
            if not told:
                yield BEAT
                continue
            if not listener.urgent.is_set():
                # Lists are told together, since they get one and the same part.
                spread = 0.0 if name is None else random.random() * SPREAD_SECONDS * len(here)  # noqa: S311
                until = max(loop.time() + spread, told_at + here.pace.numbers_s(len(here)))
                while (left := until - loop.time()) > 0 and not listener.urgent.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(listener.urgent.wait(), min(left, BEAT_SECONDS))
                    if left > BEAT_SECONDS and not listener.urgent.is_set():
                        yield BEAT
            yield listener.take()
            told_at = loop.time()
            here.pace.count_event()
            await asyncio.sleep(here.pace.states_s(len(here)))
    finally:
        here.remove(listener)
