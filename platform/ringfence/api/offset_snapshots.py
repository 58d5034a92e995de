"""Snapshots of source offsets: asked for, and taken before each change by hand, so that it can be undone."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from ringfence.api import reading
from ringfence.history.models import OffsetSnapshot
from ringfence.projection.models import Connector, pack
from ringfence.requests.commands import OffsetEntry

Entry = Mapping[str, Any]
KEPT = 100
_ATTEMPTS = 5


def take(connector: str, user: str, why: str) -> OffsetSnapshot:
    """Keep the connector's offsets of this moment; the oldest of more than KEPT go. Raises as reading them does."""
    found = reading.offsets(connector)["offsets"]
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _add(connector, user, why, found)
        except IntegrityError:  # another process has just taken one with this number
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError


def _add(connector: str, user: str, why: str, found: list[dict[str, Any]]) -> OffsetSnapshot:
    with transaction.atomic():
        rows = OffsetSnapshot.objects.filter(connector=connector)
        number = (rows.aggregate(Max("number"))["number__max"] or 0) + 1
        made = OffsetSnapshot.objects.create(
            connector=connector,
            number=number,
            time_ms=int(time.time() * 1000),
            user=user,
            why=why,
            offsets=json.dumps(found),
        )
        rows.filter(number__lte=number - KEPT).delete()
    return made


def before_a_change(connector: str, user: str, why: str) -> OffsetSnapshot | None:
    """Keep what is about to be changed. A connector that is not stopped is left alone: the leader refuses there."""
    stopped = Connector.objects.filter(name=connector, known=True, target="STOPPED").exists()
    return take(connector, user, why) if stopped else None


def changes_to(wanted: Iterable[Entry], current: Iterable[Entry]) -> list[OffsetEntry]:
    """The entries that turn `current` into exactly `wanted`; those that are alike already are left out."""
    now = {pack(entry["partition"]): entry for entry in current}
    then = {pack(entry["partition"]): entry for entry in wanted}
    changed = [
        {"partition": entry["partition"], "offset": entry["offset"]}
        for key, entry in then.items()
        if key not in now or pack(now[key]["offset"]) != pack(entry["offset"])
    ]
    return changed + [
        {"partition": entry["partition"], "offset": None} for key, entry in now.items() if key not in then
    ]


def preview(changes: Iterable[Entry], current: Iterable[Entry]) -> list[dict[str, Any]]:
    """Each partition that the changes name: what stands there, and what will; null for nothing."""
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
