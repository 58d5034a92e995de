"""Records of the config topic that no leader wrote, kept so that each raises one alert.

A leader reports those that it finds whenever its term begins; a record that is known already is not new by that.
"""

from collections.abc import Iterator
from typing import Final

from ringfence.alerts.conditions import ForeignRecords
from ringfence.alerts.models import ForeignRecord

RECENT_MS: Final = 24 * 3600 * 1000
"""An incident ends when no new record has come for so long: nothing shows that people have looked."""


def remember(connector: str, message: str, offset: int, key: str, time_ms: int, **_: object) -> None:
    """The receiver of `foreign_record_found`."""
    ForeignRecord.objects.get_or_create(
        offset=offset, key=key, defaults={"connector": connector, "message": message, "time_ms": time_ms}
    )


def list_recent(now_ms: int) -> Iterator[ForeignRecords]:
    """By connector: those since the last day in which none came."""
    by_connector: dict[str, list[ForeignRecord]] = {}
    for row in ForeignRecord.objects.filter(time_ms__gte=now_ms - RECENT_MS).order_by("time_ms", "offset"):
        by_connector.setdefault(row.connector, []).append(row)
    for connector, rows in by_connector.items():
        more = f" ({len(rows)} such records in the last day)" if len(rows) > 1 else ""
        yield ForeignRecords(connector, len(rows), rows[0].time_ms, rows[-1].message + more)


def prune(before_ms: int) -> None:
    """Forget what is older."""
    ForeignRecord.objects.filter(time_ms__lt=before_ms).delete()
