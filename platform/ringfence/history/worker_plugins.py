"""Which plugins each live worker has, as it told last."""

import json

from ringfence.history.models import WorkerPlugins
from ringfence.projection.models import Worker


def versions_by_worker() -> dict[str, dict[str, list[str]]]:
    """The versions of each plugin's class on each live worker that has told them, the newest first.

    Raises DatabaseError.
    """
    live = set(Worker.objects.values_list("worker", "incarnation"))
    rows = WorkerPlugins.objects.order_by("worker")
    return {row.worker: json.loads(row.plugins) for row in rows if (row.worker, row.incarnation) in live}
