"""As of when the data in Kafka is: the first thing that its readers ask for."""

from collections.abc import Sequence

from ringfence.projection.models import Task


def find_data_age(tasks: Sequence[Task]) -> int:
    """Return since when a change of the source may be missing, in milliseconds since the epoch: all that the source had
    then is committed, by all of these tasks. 0 if that is unknown.
    """
    times = [task.data_as_of_ms for task in tasks]
    return min(times) if times and all(times) else 0
