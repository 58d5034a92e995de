"""Which plugins each live worker has, as it told last."""

import json

from ringfence.history.models import WorkerPlugins
from ringfence.projection.models import Worker


def find_live() -> list[WorkerPlugins]:
    """What those workers told that are live in the incarnation that told it, by name. Raises DatabaseError."""
    live = set(Worker.objects.values_list("worker", "incarnation"))
    return [row for row in WorkerPlugins.objects.order_by("worker") if (row.worker, row.incarnation) in live]


def versions_by_worker() -> dict[str, dict[str, list[str]]]:
    """The versions of each plugin's class on each live worker that has told them, the newest first.

    Raises DatabaseError.
    """
    return {row.worker: json.loads(row.plugins) for row in find_live()}
