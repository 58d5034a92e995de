"""The rows of the list: connectors with their tasks' reports. A constant number of queries for any number of rows."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from ringfence.projection.health_reasons import bad_records, reason
from ringfence.projection.known_health import KnownHealth, find_data_age, known_health
from ringfence.projection.models import Connector, Task
from ringfence.projection.record_totals import find_reported
from ringfence.projection.slots import MAY_WAIT, find_waiting
from ringfence.projection.task_minutes import hours
from ringfence.web.connector.minute_cells import Strip, strip
from ringfence.web.sparklines import Line, line, rates
from ringfence.web.state_badges import Badge, look_of

LIVE_MS = 5_000
"""Milliseconds. A task that moves records reports each second: an older rate is unknown."""
IDLE_MS = 25_000
"""Milliseconds. An idle task reports every ten seconds: an older 0 is unknown."""


@dataclass(frozen=True, slots=True)
class Row:
    """One connector in the list. records: all committed records, with a note on skipped and dead-lettered ones.

    reported: the records are known only from its tasks' reports.
    """

    connector: Connector
    look: Badge
    since_ms: int
    reason: str
    rate: float | None
    """None if it is currently unknown."""
    data_as_of_ms: int
    """0 if it is unknown."""
    records: SafeString
    reported: bool
    picture: Line
    hour: Strip


def rows_of(page: Iterable[Connector], now_ms: int) -> list[Row]:
    """Return rows for the connectors, with six more queries."""
    connectors, health = list(page), known_health()
    of: dict[str, list[Task]] = {connector.name: [] for connector in connectors}
    tasks = Task.objects.filter(connector__in=of, known=True)
    for task in tasks.only("connector", "state", "rate", "reported_ms", "recent", "data_as_of_ms"):
        of[task.connector].append(task)
    strips = {name: strip(hour) for name, hour in hours(of, now_ms).items()}
    waiting = find_waiting([one.name for one in connectors if one.health in MAY_WAIT])
    reported_names = find_reported(of)
    return [
        _row(one, of[one.name], strips[one.name], now_ms, health, waiting.get(one.name, ""), one.name in reported_names)
        for one in connectors
    ]


def _row(
    connector: Connector,
    tasks: list[Task],
    hour: Strip,
    now_ms: int,
    health: KnownHealth,
    waits: str,
    reported: bool,
) -> Row:
    rate = rate_of(tasks, now_ms)
    return Row(
        connector=connector,
        look=look_of(connector, health),
        since_ms=health.since_ms(connector),
        reason=reason(connector, health, waits),
        rate=None if health.vitals.stale else rate,
        data_as_of_ms=find_data_age(tasks),
        records=_records(connector, reported),
        reported=reported,
        picture=line([*rates(tasks, now_ms)[1:], rate or 0.0]),
        hour=hour,
    )


def _records(connector: Connector, reported: bool) -> SafeString:
    """Render the cell. Not a template, whose white space would be a large part of a page of fifty rows."""
    bad = bad_records(connector.dead_letters_total, connector.skipped_total)
    link = format_html('<a class="sub warn-text" href="/ui/connectors/{}/dead-letters">{}</a>', connector.path, bad)
    suffix = mark_safe(' <span class="sub">(reported)</span>') if reported else ""
    return format_html("{}{} {}", f"{connector.records_total:,}", suffix, link if bad else "")


def rate_of(tasks: list[Task], now_ms: int) -> float | None:
    """Return the current records per second of the tasks whose rate is known; None if a task runs, and none's is."""
    running = [task for task in tasks if task.state == "RUNNING"]
    known_rates = [task.rate for task in running if task.reported_ms > now_ms - (LIVE_MS if task.rate else IDLE_MS)]
    return sum(known_rates) if known_rates or not running else None
