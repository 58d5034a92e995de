"""What a read_committed reader sees of VerifiableSource tasks, against what must be: 0..n-1, none missing, none twice.

`problems` is pure. `Reader` follows a data topic; `source_offsets` reads what is committed beside it.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.offsets.source_offsets import read_offsets
from ringfence.fencing.topics.topic_log import LogRecord, TopicLog

_SHOWN = 5
_READ_SECONDS = 60.0


def problems(sequences: Mapping[int, Sequence[int]], offsets: Mapping[int, int], first: int = 0) -> list[str]:
    """What is wrong; empty where each task's numbers go up by one from `first`, and end with its committed offset."""
    found = [f"task {task}: {words}" for task, numbers in sequences.items() for words in _gaps(numbers, first)]
    for task in sorted(sequences.keys() | offsets.keys()):
        numbers = sequences.get(task, ())
        last = max(numbers) if numbers else None
        if offsets.get(task) != last:
            found.append(f"task {task}: the committed source offset is {offsets.get(task)}, the last record is {last}")
    return found


def _gaps(numbers: Sequence[int], first: int) -> Iterable[str]:
    if list(numbers) == list(range(first, first + len(numbers))):
        return
    counts = Counter(numbers)
    twice = sorted(number for number, count in counts.items() if count > 1)
    missing = sorted(set(range(first, max(numbers) + 1)) - counts.keys())
    early = sorted(number for number in counts if number < first)
    if twice:
        yield f"{len(twice)} numbers are there more than once: {twice[:_SHOWN]}"
    if missing:
        yield f"{len(missing)} numbers are missing: {missing[:_SHOWN]}"
    if early:
        yield f"{len(early)} numbers come before {first}: {early[:_SHOWN]}"
    place = next(at for at, number in enumerate(numbers) if number != first + at)
    yield f"{numbers[place]} stands in place {place}, where {first + place} is expected"


class Reader:
    """Reads a data topic, committed records only, as far as it is asked to: the key is the task, the value a number."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.sequences: dict[int, list[int]] = {}
        self._log = TopicLog(connection, topic)

    @property
    def count(self) -> int:
        """Records read so far."""
        return sum(len(numbers) for numbers in self.sequences.values())

    def poll(self, seconds: float) -> None:
        """Take in what comes within `seconds`."""
        self._take(self._log.poll(seconds))

    def read_to_end(self, seconds: float = _READ_SECONDS) -> None:
        """Take in everything that is in the topic now. A broker that is away is waited for."""
        deadline = Deadline.after(seconds)
        while True:
            try:
                return self._take(self._log.read_to_end(deadline))
            except Retriable:
                if deadline.expired:
                    raise
                time.sleep(0.1)

    def _take(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            self.sequences.setdefault(int(record.key or b"-1"), []).append(int(record.value or b"-1"))

    def close(self) -> None:
        self._log.close()


def source_offsets(connection: Connection, topic: str, connector: str) -> dict[int, int]:
    """The committed `seqno` of each task."""
    found = read_offsets(connection, topic, ConnectorName(connector), Deadline.after(_READ_SECONDS))
    return {int(str(one.partition["id"])): int(str((one.offset or {})["seqno"])) for one in found.present()}
