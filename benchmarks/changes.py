"""Connectors on open pages, and changes to them."""

import time
from collections.abc import Sequence

from benchmarks import lists


def fill(connectors: int, tasks: int, looked_at: int) -> list[str]:
    """Create connectors and tasks. Returns the names of the first ones in the list, which also have an hour
    of minutes.
    """
    from django.db import transaction

    from ringfence.access.principal import EVERYBODY_HERE
    from ringfence.projection.models import ClusterInfo, Minute, Worker
    from ringfence.projection.task_minutes import EVERYTHING, ITSELF, minute_of
    from ringfence.web.lists.connector_query import choose

    lists.fill(connectors, tasks)
    now_ms = int(time.time() * 1000)
    minutes = range(minute_of(now_ms) - 60, minute_of(now_ms) + 1)
    names = [row.name for row in choose({}, EVERYBODY_HERE, now_ms).sorted_rows[:looked_at]]
    with transaction.atomic():
        Worker.objects.create(worker="w1", incarnation="i", mode="enabled", slots=8, version="1", since_ms=now_ms)
        ClusterInfo.objects.create(id=1, leader="w1", since_ms=now_ms)
        rows = [
            Minute(connector=name, task=task, minute=minute, state="RUNNING", began="RUNNING", records=60_000)
            for name in names
            for task in range(tasks)
            for minute in minutes
        ]
        rows += [Minute(connector=EVERYTHING, task=ITSELF, minute=minute, records=10**8) for minute in minutes]
        Minute.objects.bulk_create(rows, batch_size=1000)
    return names


class Changes:
    """Changes one connector after another, and notifies the pages, as the projector does."""

    def __init__(self, names: Sequence[str], redis_url: str) -> None:
        from ringfence.projection.change_notifications import RedisNotices

        self._names = names
        self._tell = RedisNotices(redis_url)
        self._count = 0

    def make(self, what: str) -> frozenset[str]:
        """Make a change. Returns the connectors that it affects."""
        from ringfence.projection.change_notifications import Notice
        from ringfence.projection.models import Connector

        self._count += 1
        name = self._names[self._count % len(self._names)]
        match what:
            case "numbers":  # a progress report
                self._count_records([name])
                self._tell(Notice(moved=(name,)))
            case "every number":
                self._count_records(self._names)
                self._tell(Notice(moved=tuple(self._names)))
                return frozenset(self._names)
            case "state":  # which may change the order of the list
                Connector.objects.filter(name=name).update(since_ms=int(time.time() * 1000))
                self._tell(Notice(changed=(name,)))
        return frozenset((name,))

    def _count_records(self, names: Sequence[str]) -> None:
        from ringfence.projection.models import Connector, Task

        Task.objects.filter(connector__in=names, number=0).update(records=self._count)
        Connector.objects.filter(name__in=names).update(records_total=self._count)
