"""Snapshots of source offsets: on request, and before each manual change, so that it can be undone."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from ringfence.api import connector_reads
from ringfence.engine.leader.commands.offsets import OffsetEntry
from ringfence.history.models import OffsetSnapshot
from ringfence.projection.models import Connector, pack

Entry = Mapping[str, Any]
KEPT = 100
_ATTEMPTS = 5


def take_snapshot(connector: str, user: str, why: str) -> OffsetSnapshot:
    """Take a snapshot of the connector's offsets, and delete the oldest beyond KEPT. Raises the errors
    of reading offsets.
    """
    offsets = connector_reads.offsets(connector)["offsets"]
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _add(connector, user, why, offsets)
        except IntegrityError:  # another process has just taken a snapshot with this number
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


def _add(connector: str, user: str, why: str, offsets: list[dict[str, Any]]) -> OffsetSnapshot:
    with transaction.atomic():
        rows = OffsetSnapshot.objects.filter(connector=connector)
        number = (rows.aggregate(Max("number"))["number__max"] or 0) + 1
        snapshot = OffsetSnapshot.objects.create(
            connector=connector,
            number=number,
            time_ms=int(time.time() * 1000),
            user=user,
            why=why,
            offsets=json.dumps(offsets),
        )
        rows.filter(number__lte=number - KEPT).delete()
    return snapshot


def snapshot_before_change(connector: str, user: str, why: str) -> OffsetSnapshot | None:
    """Take a snapshot before a change. Returns None if the connector is not stopped, because the leader
    refuses then.
    """
    stopped = Connector.objects.filter(name=connector, known=True, target="STOPPED").exists()
    return take_snapshot(connector, user, why) if stopped else None


def changes_to(target: Iterable[Entry], current: Iterable[Entry]) -> list[OffsetEntry]:
    """Return the entries that turn `current` into exactly `target`, without those that are equal."""
    now = {pack(entry["partition"]): entry for entry in current}
    then = {pack(entry["partition"]): entry for entry in target}
    changed = [
        {"partition": entry["partition"], "offset": entry["offset"]}
        for key, entry in then.items()
        if key not in now or pack(now[key]["offset"]) != pack(entry["offset"])
    ]
    return changed + [
        {"partition": entry["partition"], "offset": None} for key, entry in now.items() if key not in then
    ]


def preview(changes: Iterable[Entry], current: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return each partition in the changes with its current and new offset; null for none."""
    now = {pack(entry["partition"]): entry["offset"] for entry in current}
    return [
        {
            "partition": entry["partition"],
            "before": now.get(pack(entry["partition"])),
            "after": entry["offset"],
            "changes": pack(now.get(pack(entry["partition"]))) != pack(entry["offset"]),
        }
        for entry in changes
    ]
