"""As of when the data in Kafka is: the first thing that its readers ask for."""

from collections.abc import Collection, Sequence

from django.db.models import Min

from ringfence.projection.models import Task


def find_data_age(tasks: Sequence[Task]) -> int:
    """Return since when a change of the source may be missing, in milliseconds since the epoch: all that the source had
    then is committed, by all of these tasks. 0 if that is unknown.
    """
    return min((task.data_as_of_ms for task in tasks), default=0)


def find_data_ages(connectors: Collection[str]) -> dict[str, int]:
    """Return the same by connector, for those with tasks. The database does: a connector may have thousands."""
    tasks = Task.objects.filter(connector__in=connectors, known=True).values_list("connector")
    return dict(tasks.annotate(oldest_ms=Min("data_as_of_ms")))
