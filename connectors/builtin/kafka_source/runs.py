"""Records of one partition by columns: the form of a batch."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from confluent_kafka import Message

from ringfence.connectors.api import InputRecord
from ringfence.connectors.api.fetching import Run


def of_messages(run: Sequence[Message]) -> Run:
    return Run(
        str(run[0].topic()),
        int(run[0].partition() or 0),
        [message.value() for message in run],
        [message.key() for message in run],
        [message.headers() for message in run],
        [message.timestamp()[1] for message in run],
        [message.offset() for message in run],  # type: ignore[misc]  # None only for events
    )


def of_records(run: Sequence[InputRecord]) -> Run:
    return Run(
        run[0].topic,
        run[0].partition,
        [record.value for record in run],
        [record.key for record in run],
        [record.headers for record in run],
        [record.timestamp_ms for record in run],
        [record.offset for record in run],
    )


def divide(run: Run, most: int) -> Iterable[Run]:
    """Yield the records in runs of at most `most` records."""
    for start in range(0, len(run.offsets), most):
        yield run.part(slice(start, start + most))


Record = TypeVar("Record")


def by_partition(records: Sequence[Record], where: Callable[[Record], object]) -> list[Sequence[Record]]:
    """Group records by partition; the order within a partition is kept."""
    if not records:
        return []
    if len(set(map(where, records))) == 1:
        return [records]
    runs: dict[object, list[Record]] = {}
    for record in records:
        runs.setdefault(where(record), []).append(record)
    return list(runs.values())
