"""What of a connector's earlier generations may be alive: until a fencing round is done, the old tasks may write."""

import time
from typing import Any

from django.db.models import Max

from ringfence.history.models import ConfigVersion
from ringfence.projection.models import ActiveTopic, Connector, GenerationRow

_MOST = 20
_ON_ITS_WAY_SECONDS, _LOOK_SECONDS = 2.0, 0.05


def ids(row: Connector) -> int:
    """How many transactional ids its generations have had: a zombie may hold one of a larger generation before."""
    most = GenerationRow.objects.filter(connector=row.name).aggregate(Max("tasks"))["tasks__max"] or 0
    return max(most, row.task_count)


def earlier(row: Connector) -> list[dict[str, str]]:
    """The configurations, newest first, of the generations that no finished round has fenced; secrets in clear.

    They may have written to other clusters. Without the one that the connector has now.
    """
    found: list[dict[str, str]] = []
    for generation in GenerationRow.objects.filter(connector=row.name).order_by("-generation")[:_MOST]:
        # The version whose record it was, or which was only written again since.
        version = (
            ConfigVersion.objects.filter(connector=row.name, config_offset__lte=generation.config_offset)
            .order_by("-config_offset")
            .first()
        )
        if version is not None and version.settings not in (row.settings, *found):
            found.append(version.settings)
        if generation.stage == "done":
            break  # and with it, all before are fenced
    return found


def fenced_ids(connector: str, answer: object) -> list[dict[str, Any]]:
    """What a command to fence has fenced: {"id", "producer_id", "epoch"}, the numbers None where nobody told them.

    Of a round the leader answers only with the generation: the ids come through the events topic, and are waited for
    for a moment. [] where they are still on their way then.
    """
    value = answer if isinstance(answer, dict) else {}
    told = value.get("fenced")
    if told is None and value.get("generation") is not None:
        told = _of_round(connector, value["generation"])
    return [{"producer_id": None, "epoch": None, **each} for each in told or []]


def _of_round(connector: str, generation: int) -> list[dict[str, Any]]:
    until = time.monotonic() + _ON_ITS_WAY_SECONDS
    while True:
        row = GenerationRow.objects.filter(connector=connector, generation=generation, stage="done").first()
        if row is not None:
            return row.fenced_ids
        if time.monotonic() >= until:
            return []
        time.sleep(_LOOK_SECONDS)


def topics(row: Connector) -> list[str]:
    """The topics that it has written to."""
    return list(ActiveTopic.objects.filter(connector=row.name).order_by("topic").values_list("topic", flat=True))
