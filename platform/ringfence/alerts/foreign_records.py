"""Records of the config topic that no leader wrote, stored so that each raises one alert.

Every leader reports them at the beginning of its term; a record that is already known does not count as new.
"""

from collections.abc import Iterator
from typing import Final

from ringfence.alerts.models import ForeignRecord
from ringfence.alerts.snapshot import ForeignRecords

RECENT_MS: Final = 24 * 3600 * 1000
"""An incident ends if no new record has come for this long, because nothing shows whether it was handled."""


def remember(connector: str, message: str, offset: int, key: str, time_ms: int, **_: object) -> None:
    """Store a record. The receiver of `foreign_record_found`."""
    ForeignRecord.objects.get_or_create(
        offset=offset, key=key, defaults={"connector": connector, "message": message, "time_ms": time_ms}
    )


def list_recent(now_ms: int) -> Iterator[ForeignRecords]:
    """Yield the records by connector, back to the last day in which none came."""
    by_connector: dict[str, list[ForeignRecord]] = {}
    for row in ForeignRecord.objects.filter(time_ms__gte=now_ms - RECENT_MS).order_by("time_ms", "offset"):
        by_connector.setdefault(row.connector, []).append(row)
    for connector, rows in by_connector.items():
        more = f" ({len(rows)} such records in the last day)" if len(rows) > 1 else ""
        yield ForeignRecords(connector, len(rows), rows[0].time_ms, rows[-1].message + more)


def prune(before_ms: int) -> None:
    """Delete older records."""
    ForeignRecord.objects.filter(time_ms__lt=before_ms).delete()
