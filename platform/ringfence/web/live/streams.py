"""One stream of server-sent events per page: small "something changed" events, after which the page fetches its
fragments.

A process subscribes once to Redis, and informs all of its pages. Without Redis it polls the projection's positions
every two seconds. The events:

- `hello`, at the beginning, and `beat`, if there is no other event: a page that receives neither is disconnected;
- `changed`: fetch the fragment again. Data: the time in milliseconds at which this process heard of the change; a
  fragment that was made since then is fresh (`live.fragment_cache`);
- `vital`: the state of workers, leader, projection, Kafka or Redis in the page's head has changed;
- `rows` (streams about all connectors only): the numbers of some connectors have changed. Data: `{"at", "names"}`;
  names is null for many connectors;
- `numbers` (streams about one connector only): the connector's changed numbers. Data: `{"at", "html"}`, with the
  HTML by element id.
"""

import asyncio
import contextlib
import logging
import math
import random
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable

from redis.exceptions import RedisError

from ringfence import redis_client
from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.projection.change_notifications import ANYTHING, CHANNEL, Notice, decode
from ringfence.web.live import change_stamps
from ringfence.web.live.listener import Listener
from ringfence.web.live.numbers import read_numbers
from ringfence.web.live.rate_control import RateControl

BEAT_SECONDS = 3.0
"""A page that has heard nothing for three of these says so (`SILENT` in live.js), well within 15 seconds."""
RENEWAL_SECONDS = 15.0
"""How often the permission for a stream is checked again."""
TICK_SECONDS = 10.0
"""How often lists and the overview are fetched again without a change, because reports expire with time. The server
triggers it, and not each page's own timer, so that all pages share one fragment.
"""
SPREAD_SECONDS = 0.015
"""For each open page: events that are not urgent and concern all pages are spread over this time. Rendering a
connector's page takes about that long, and an urgent change must not queue behind two hundred of them.
"""
PART_SECONDS = 10.0
"""The average between two fragments of a connector's page if only numbers have changed. The numbers above the tabs, and
each task's, come in events without a fragment.
"""
NUMBERS_SECONDS = 0.8
"""How often the numbers of the connectors with open pages are read, once for all of them."""
BEAT = "event: beat\ndata: .\n\n"
_POLL_SECONDS = 2.0
_RETRY_SECONDS = 10.0
_VITAL_SECONDS = _AUDIT_SECONDS = 1.0

log = logging.getLogger(__name__)


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
            duties = (self._listen, self._tick, self._give_numbers, self._watch_vital_signs, self._watch_audit)
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

    async def _give_numbers(self) -> None:
        while True:
            await asyncio.sleep(NUMBERS_SECONDS)
            waiting = [each for each in self._listeners if each.moved]
            if not waiting:
                continue
            for listener in waiting:  # set before the query: a change during it belongs to the next one
                listener.moved = False
            at_ms = int(time.time() * 1000)
            names = {each.name for each in waiting if each.name}
            all_numbers = await read_numbers(names, {each.name for each in waiting if each.tasks and each.name})
            for listener in waiting:
                if (numbers := all_numbers.get(listener.name or "")) is not None:
                    listener.give(numbers, at_ms)

    async def _watch_vital_signs(self) -> None:
        before = projection = None
        times = 0
        while True:
            now = await change_stamps.read_vital()
            if before is not None and now != before:
                times = 2  # the page may be answered by another process, whose signs are up to a second old
            if times:
                at_ms = int(time.time() * 1000)
                for listener in self._listeners:
                    listener.tell_vital_signs(at_ms)
                times -= 1
            before = now
            if "no-redis" in now:  # a frozen Redis does not break the connection, and sends nothing
                projection, last = await change_stamps.read_projected(), projection
                if projection != last:
                    self.tell(ANYTHING)
            await asyncio.sleep(_VITAL_SECONDS)

    async def _watch_audit(self) -> None:
        before: object = None
        while True:
            if following := [each for each in self._listeners if each.audit]:
                now = await change_stamps.read_audit()
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
        client = redis_client.connect_asynchronously(redis_client.URL, socket_connect_timeout=2)
        try:
            async with client.pubsub() as subscription:
                await subscription.subscribe(CHANNEL)
                self.tell(ANYTHING)  # for changes during the time without a subscription
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
            now = await change_stamps.read_projected()
            if now != before:
                self.tell(ANYTHING)
                before = now
            await asyncio.sleep(_POLL_SECONDS)


_hubs: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = weakref.WeakKeyDictionary()


def hub() -> Hub:
    """Return the hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


Renew = Callable[[], Awaitable[Principal | None]]


async def _always() -> Principal:
    return EVERYBODY_HERE


async def stream(
    name: str | None,
    who: Principal = EVERYBODY_HERE,
    renew: Renew = _always,
    *,
    audit: bool = False,
    tasks: bool = False,
) -> AsyncIterator[str]:
    """Yield the events of one page, at the rate that `RateControl` allows. audit, tasks: as for `Listener`.

    renew: returns the current principal, None if it has no access any more. It is called every `RENEWAL_SECONDS`,
    before the next event; at None, the stream ends.
    """
    listener, here, loop = Listener(name, who, audit=audit, tasks=tasks), hub(), asyncio.get_running_loop()
    opened_at = asked_at = loop.time()
    told_at, due, only_numbers = -math.inf, math.inf, True
    here.add(listener)
    try:
        yield "retry: 2000\nevent: hello\ndata: .\n\n"
        said_at = loop.time()
        while True:
            if loop.time() - asked_at >= RENEWAL_SECONDS:
                now = await renew()
                if now is None:
                    return
                listener.who, asked_at = now, loop.time()
            if listener.changed.is_set() and (due == math.inf or (only_numbers and not listener.only_numbers)):
                only_numbers = listener.only_numbers
                due = _next_part(listener, here, opened_at, told_at)
            if listener.urgent.is_set() or loop.time() >= due:
                due = math.inf
                yield listener.take()
                told_at = loop.time()
                here.pace.count_event()
                await asyncio.sleep(here.pace.states_s(len(here)))
            elif numbers := listener.take_numbers():
                yield numbers
            elif loop.time() - said_at >= BEAT_SECONDS:
                yield BEAT
            else:
                left = min(due, said_at + BEAT_SECONDS) - loop.time()
                listener.woken.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(listener.woken.wait(), max(0.0, left))
                continue
            said_at = loop.time()
    finally:
        here.remove(listener)


def _next_part(listener: Listener, here: Hub, opened_at: float, told_at: float) -> float:
    """Return when a page must fetch its fragment again, by the event loop's clock, for changes that are not urgent."""
    now, pause = asyncio.get_running_loop().time(), here.pace.numbers_s(len(here))
    if listener.name is None:
        return max(now, told_at + pause)  # at the same time for all lists, since they share one fragment
    if listener.only_numbers:
        return max(opened_at, told_at) + max(pause, PART_SECONDS) * (0.5 + random.random())  # noqa: S311
    return max(now + random.random() * SPREAD_SECONDS * len(here), told_at + pause)  # noqa: S311
