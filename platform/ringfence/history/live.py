"""What of a connector's earlier generations may be alive: until a fencing round is done, the old tasks may write."""

from django.db.models import Max

from ringfence.history.models import ConfigVersion
from ringfence.mirror.models import ActiveTopic, Connector, GenerationRow

_MOST = 20


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


def topics(row: Connector) -> list[str]:
    """The topics that it has written to."""
    return list(ActiveTopic.objects.filter(connector=row.name).order_by("topic").values_list("topic", flat=True))
