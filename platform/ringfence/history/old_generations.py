"""Earlier generations of a connector that may be alive: their tasks may write until a fencing round is done."""

import time
from typing import Any

from django.db.models import Max

from ringfence.history.models import ConfigVersion
from ringfence.projection.models import ActiveTopic, Connector, GenerationRow

_MOST = 20
_ON_ITS_WAY_SECONDS, _LOOK_SECONDS = 2.0, 0.05


def count_transactional_ids(row: Connector) -> int:
    """Return the number of transactional ids of its generations: a zombie may hold one of an earlier,
    larger generation.
    """
    most = GenerationRow.objects.filter(connector=row.name).aggregate(Max("tasks"))["tasks__max"] or 0
    return max(most, row.task_count)


def find_unfenced_configs(row: Connector) -> list[dict[str, str]]:
    """Return the configurations, newest first, of the generations that no finished round has fenced; secrets in clear
    text.

    They may have written to other clusters. The connector's current configuration is not included.
    """
    versions: list[dict[str, str]] = []
    for generation in GenerationRow.objects.filter(connector=row.name).order_by("-generation")[:_MOST]:
        # The version of that record, or of a later unchanged copy of it.
        version = (
            ConfigVersion.objects.filter(connector=row.name, config_offset__lte=generation.config_offset)
            .order_by("-config_offset")
            .first()
        )
        if version is not None and version.settings not in (row.settings, *versions):
            versions.append(version.settings)
        if generation.stage == "done":
            break  # and so are all earlier ones
    return versions


def list_fenced_ids(connector: str, answer: object) -> list[dict[str, Any]]:
    """Return the ids that a fencing command has fenced: {"id", "producer_id", "epoch"}, with None for unknown numbers.

    The leader answers a round with its generation only. The ids come through the events topic, and are awaited for a
    moment; [] if they have not arrived by then.
    """
    value = answer if isinstance(answer, dict) else {}
    ids = value.get("fenced")
    if ids is None and value.get("generation") is not None:
        ids = _of_round(connector, value["generation"])
    return [{"producer_id": None, "epoch": None, **each} for each in ids or []]


def _of_round(connector: str, generation: int) -> list[dict[str, Any]]:
    until = time.monotonic() + _ON_ITS_WAY_SECONDS
    while True:
        row = GenerationRow.objects.filter(connector=connector, generation=generation, stage="done").first()
        if row is not None:
            return row.fenced_ids
        if time.monotonic() >= until:
            return []
        time.sleep(_LOOK_SECONDS)


def list_active_topics(row: Connector) -> list[str]:
    """Return the topics that it has written to."""
    return list(ActiveTopic.objects.filter(connector=row.name).order_by("topic").values_list("topic", flat=True))
