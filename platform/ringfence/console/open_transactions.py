"""The open transactions of a connector, which a fence would abort: from Kafka or, failing that, from its tasks' last
reports.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ringfence import dispatch
from ringfence.dispatch import Refusal
from ringfence.history import old_generations
from ringfence.projection.models import Connector, Task
from ringfence.requests.questions import DescribeTransactions

_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class OpenNow:
    """Transactional ids (or tasks) with an open transaction, and the partitions in them."""

    ids: Sequence[str]
    partitions: Sequence[str]
    is_requested: bool
    warnings: Sequence[str] = ()


def open_now(row: Connector, ids: int) -> OpenNow:
    """Query a worker once, for a page that is about to abort the transactions."""
    try:
        transactions = dispatch.ask(
            DescribeTransactions(row.name, ids, row.settings, old_generations.find_unfenced_configs(row)), _SECONDS
        )
    except Refusal as error:
        tasks = Task.objects.filter(connector=row.name, known=True, open_since_ms__gt=0).order_by("number")
        task_names = [f"task {number}" for number in tasks.values_list("number", flat=True)]
        return OpenNow(task_names, (), False, [f"Kafka could not be queried for open transactions: {error.message}"])
    are_open = [each for each in transactions if each["open"]]
    partitions = {f"{one['topic']}-{one['partition']}" for each in are_open for one in each["partitions"]}
    return OpenNow([str(each["id"]) for each in are_open], sorted(partitions), True)
