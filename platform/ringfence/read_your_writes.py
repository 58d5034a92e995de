"""Read-your-writes: a command is answered once the database shows what it wrote."""

import time
from collections.abc import Mapping

from ringfence.fencing.clock import Deadline
from ringfence.projection import positions
from ringfence.requests.refusal import Refusal


def wait_for_rows(answer: Mapping[str, object], deadline: Deadline) -> None:
    """Wait until the database shows what was written: `offset` of the config topic, `offsets_end` and `status_end`.

    The latter two: {partition: next offset} of the offsets or status topic, for commands that write there.
    """
    waits: list[tuple[str, int, int]] = []
    offset = answer.get("offset")
    if isinstance(offset, int):
        waits.append(("config", 0, offset + 1))
    for role in ("offsets", "status"):
        ends = answer.get(f"{role}_end")
        if isinstance(ends, dict):
            waits += [(role, int(partition), int(end)) for partition, end in ends.items()]
    for role, partition, end in waits:
        _wait_for(role, partition, end, deadline)


def _wait_for(role: str, partition: int, end: int, deadline: Deadline) -> None:
    pause = 0.002
    while positions.shown_offset(role, partition) < end:
        if deadline.expired:
            raise Refusal(
                500,
                f"Request timed out. It was written to Kafka, and the database does not show it yet: waited for offset "
                f"{end - 1} of the {role} topic. It is in effect; read it again.",
            )
        time.sleep(deadline.slice(pause))
        pause = min(pause * 1.5, 0.1)
