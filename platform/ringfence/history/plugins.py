"""What the database keeps of plugins: the files of installations, and the plugins of each live worker, as of its last
report.
"""

import json
from collections.abc import Iterator

from ringfence.history.models import PluginInstallation, PluginPiece, WorkerPlugins
from ringfence.projection.models import Worker


def read_pieces(installation: PluginInstallation) -> Iterator[bytes]:
    """Yield its pieces one by one: a plugin may be larger than a process should hold in memory."""
    pieces = PluginPiece.objects.filter(installation=installation).order_by("start")
    for key in list(pieces.values_list("pk", flat=True)):
        yield bytes(PluginPiece.objects.values_list("data", flat=True).get(pk=key))


def find_live() -> list[WorkerPlugins]:
    """Return the reports of live workers about their current incarnation, by name. Raises DatabaseError."""
    live = set(Worker.objects.values_list("worker", "incarnation"))
    return [row for row in WorkerPlugins.objects.order_by("worker") if (row.worker, row.incarnation) in live]


def versions_by_worker() -> dict[str, dict[str, list[str]]]:
    """Return the versions of each plugin class on each live worker that has reported them, the newest first.

    Raises DatabaseError.
    """
    return {row.worker: json.loads(row.plugins) for row in find_live()}


def read_titles() -> dict[str, str]:
    """Return how the catalogs of live workers call a connector, by each of its names. Raises DatabaseError."""
    titles: dict[str, str] = {}
    for row in find_live():
        titles |= json.loads(row.titles)
    return titles
