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

Data without notifications has values that change with it, which are polled while pages are open (`read_vital`).

`RateControl` decides how often pages get events. A page fetches a fragment for each event; fragments that many pages
share are made once and cost little, others cost much. So the cost is measured: the process's processor time, divided by
its events.

The numbers on open connector pages are read for all of these pages at once. The event contains them, each with the id
of the element that shows it (`connector_head.html`, `tasks.html`).
"""

import asyncio
import contextlib
import json
import logging
import math
import random
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.db.models import Count, Max, Sum
from redis.exceptions import RedisError

from ringfence import redis_client
from ringfence.access.principal import EVERYBODY_HERE, Principal
from ringfence.alerts.models import Incident
from ringfence.audit.models import AuditEntry
from ringfence.heartbeats.cluster_view import look
from ringfence.projection import record_totals
from ringfence.projection.change_notifications import ANYTHING, CHANNEL, Notice, decode
from ringfence.projection.health import find_data_age, known_health
from ringfence.projection.models import Connector, RecordTotals, Task, TopicPosition
from ringfence.web.connector.header import now_ms
from ringfence.web.connector.transaction_lanes import open_now
from ringfence.web.lists.connector_rows import rate_of
from ringfence.web.templatetags.ringfence import ago, num, open_transactions, rate

Numbers = dict[str, str]
"""HTML by element id."""

_OF_TASKS = (
    "connector", "number", "state", "rate", "reported_ms", "generation", "attempt", "live_generation", "live_attempt",
    "open_since_ms", "data_as_of_ms",
)  # fmt: skip


@sync_to_async
def read_numbers(names: Collection[str], with_tasks: Collection[str]) -> dict[str, Numbers]:
    """Read the numbers, by connector. with_tasks: connectors that also need each task's. Empty while the
    database is away.
    """
    try:
        return _read(names, with_tasks)
    except DatabaseError:
        return {}
    finally:
        close_old_connections()  # this thread serves no request that would do it


def _read(names: Collection[str], with_tasks: Collection[str]) -> dict[str, Numbers]:
    now, stale = now_ms(), known_health().vitals.stale
    tasks: dict[str, list[Task]] = {}
    for task in Task.objects.filter(connector__in=names, known=True).order_by("number").only(*_OF_TASKS):
        tasks.setdefault(task.connector, []).append(task)
    rows = Connector.objects.filter(name__in=names, known=True).values_list("name", "records_total", "last_commit_ms")
    totals = record_totals.of_tasks(with_tasks) if with_tasks else {}
    numbers = {}
    for name, records, last_commit_ms in rows:
        of_name = tasks.get(name, [])
        numbers[name] = {
            "rate-now": rate(None if stale else rate_of(of_name, now)),
            "records-in-all": f"{num(records)} in all",
            "last-commit": ago(last_commit_ms),
            "data-as-of": ago(find_data_age(of_name)),
            "open-transactions": open_transactions(sum(open_now(task) for task in of_name)),
        }
        if name in with_tasks:
            for task in of_name:
                numbers[name] |= _of_task(task, totals.get((name, task.number)) or RecordTotals(), now)
    return numbers


def _of_task(task: Task, totals: RecordTotals, now: int) -> Numbers:
    return {
        f"task-{task.number}-rate": rate(rate_of([task], now)),
        f"task-{task.number}-records": num(totals.records),
        f"task-{task.number}-last-commit": ago(totals.last_commit_ms),
    }


MANY = 60
"""More changed rows than this are sent as "many": a page shows fifty."""


class Listener:
    """One open page. name: the connector it shows, None for all that `who` may see. audit: it shows the audit trail, or
    something that changes only with an audit entry, and no connectors. tasks: it shows each task's numbers.
    """

    def __init__(
        self, name: str | None, who: Principal = EVERYBODY_HERE, *, audit: bool = False, tasks: bool = False
    ) -> None:
        self.name = name
        self.who = who
        self.audit = audit
        self.tasks = tasks
        self.woken = asyncio.Event()
        self.moved = False
        """Whether its connector's numbers must be read again."""
        self.only_numbers = True
        """Whether only numbers have changed since the last event."""
        self._changes: Numbers = {}
        self._numbers: Numbers = {}
        self._looked_ms = 0
        self.changed = asyncio.Event()
        self.urgent = asyncio.Event()
        """Set if more than numbers has changed."""
        self._at_ms = 0
        self._whole = False
        self._vital = False
        self._rows: set[str] = set()

    def tell(self, notice: Notice, at_ms: int = 0) -> None:
        """Wake the page if the notice concerns it."""
        if self.audit:
            return
        if self.name is None:
            urgent = whole = notice.other or bool(self.who.filter_names(notice.changed))
            rows = self.who.filter_names(notice.moved)
        else:
            urgent = self.name in notice.changed
            moved = self.name in notice.moved
            self.moved = self.moved or moved
            self.only_numbers = self.only_numbers and not (urgent or notice.other)
            whole, rows = urgent or notice.other or moved, []
        if urgent:
            self.urgent.set()
        if whole or rows:
            self._at_ms = at_ms
            self._whole = self._whole or whole
            self._rows.update(rows)
            self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.woken.set()

    def give(self, numbers: Numbers, at_ms: int) -> None:
        """Set its numbers, as read at or after that time."""
        self._looked_ms = at_ms
        self._changes = {id: text for id, text in numbers.items() if self._numbers.get(id) != text}
        self._numbers = numbers
        self.woken.set()

    def take_numbers(self) -> str:
        """Return an event with the numbers that changed; "" if none did."""
        numbers, self._changes = self._changes, {}
        data = {"at": self._looked_ms, "html": numbers}
        return f"event: numbers\ndata: {json.dumps(data)}\n\n" if numbers else ""

    def tell_vital_signs(self, at_ms: int) -> None:
        """Wake the page because the vital signs have changed, and with them the reliability of all states."""
        self._vital = True
        self.urgent.set()
        self.look_again(at_ms)

    def look_again(self, at_ms: int) -> None:
        """Wake the page without a notice."""
        self._at_ms = at_ms
        self._whole = True
        self.only_numbers = False
        self._wake()

    def take(self) -> str:
        """Return one event for everything since the last one."""
        self.changed.clear()
        self.urgent.clear()
        whole, vital, rows = self._whole, self._vital, sorted(self._rows)
        self._whole = self._vital = False
        self.only_numbers = True
        self._rows.clear()
        head = "event: vital\ndata: .\n\n" if vital else ""
        if whole:
            return f"{head}event: changed\ndata: {self._at_ms}\n\n"
        data = {"at": self._at_ms, "names": rows if len(rows) <= MANY else None}
        return f"event: rows\ndata: {json.dumps(data)}\n\n"


SHORTEST, LONGEST = 0.8, 10.0
"""Bounds on the seconds between two number events, for each page."""
SHARE = 0.6
"""The share of one core that number events may use."""
_LOOK_SECONDS, _ENOUGH = 1.0, 10
"""Seconds between two measurements, and the fewest events for one. With fewer, the process's other work
would distort it.
"""
_MORE, _LESS = 0.3, 0.8
"""The weight of a new measurement, if it is higher, or lower, than the average. A costly second is forgotten quickly:
often it is an exception, such as the start of the process, and users notice late numbers.
"""
_STATES = 0.3


class RateControl:
    """The rate control of one process."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu_clock: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._since, self._then = clock(), cpu_clock()
        self._events = 0
        self._cost = 0.0

    def count_event(self) -> None:
        """Count an event that was sent to a page."""
        self._events += 1
        now = self._clock()
        if now - self._since < _LOOK_SECONDS:
            return
        cpu_seconds = self._cpu_clock()
        if self._events >= _ENOUGH:
            cost = (cpu_seconds - self._then) / self._events
            self._cost += (cost - self._cost) * (_MORE if cost > self._cost else _LESS)
        self._since, self._then, self._events = now, cpu_seconds, 0

    def numbers_s(self, pages: int) -> float:
        """Return the seconds between two events, if only numbers have changed."""
        return min(LONGEST, max(SHORTEST, pages * self._cost / SHARE))

    def states_s(self, pages: int) -> float:
        """Return the seconds between two events, if a state has changed: never long, because users wait for it."""
        return min(SHORTEST, self.numbers_s(pages) * _STATES)


_LAST_ENTRIES = 20


@sync_to_async
def read_projected() -> object:
    """Return a value that changes with every projected record; None while the database is away."""
    try:
        return TopicPosition.objects.aggregate(sum=Sum("applied_offset"))["sum"]
    except DatabaseError:
        return None
    finally:
        close_old_connections()  # this thread serves no request that would do it


@sync_to_async
def read_audit() -> object:
    """Return a value that changes with every audit entry that begins or completes; None while the database is away."""
    try:
        return list(AuditEntry.objects.order_by("-pk").values_list("pk", "completed")[:_LAST_ENTRIES])
    except DatabaseError:
        return None
    finally:
        close_old_connections()


@sync_to_async
def read_vital() -> str:
    try:
        open_now = Incident.objects.filter(resolved_ms=0)
        summary = open_now.aggregate(n=Count("pk"), last=Max("pk"), by=Max("acknowledged_ms"))
        return f"{look.vitals().stamp}|{summary}"
    except DatabaseError:
        return look.vitals().stamp
    finally:
        close_old_connections()


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
            now = await read_vital()
            if before is not None and now != before:
                times = 2  # the page may be answered by another process, whose signs are up to a second old
            if times:
                at_ms = int(time.time() * 1000)
                for listener in self._listeners:
                    listener.tell_vital_signs(at_ms)
                times -= 1
            before = now
            if "no-redis" in now:  # a frozen Redis does not break the connection, and sends nothing
                projection, last = await read_projected(), projection
                if projection != last:
                    self.tell(ANYTHING)
            await asyncio.sleep(_VITAL_SECONDS)

    async def _watch_audit(self) -> None:
        before: object = None
        while True:
            if following := [each for each in self._listeners if each.audit]:
                now = await read_audit()
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
            now = await read_projected()
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
