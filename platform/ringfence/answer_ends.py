"""Up to where an answered command has written, and the key in Redis where web processes learn it (`read_your_writes`).

The worker that carries out a command writes it there, together with the answer. Free of Django, since a worker needs
it before its models are loaded.
"""

from collections.abc import Mapping
from typing import Any, Final

from ringfence import redis_client

Place = tuple[str, int]
"""The role of a topic, and a partition."""

KEPT_SECONDS: Final = 120
"""So long ends are remembered. After that, the rows show them, or never will."""
NOTED: Final = "noted"
"""The field of an answer that is true if its worker has written the ends to Redis. Workers of 0.3 do not."""
_KEY: Final = f"{redis_client.key_prefix()}ringfence:answered"


def key_of(account: str) -> str:
    """Return the key of an account's sorted set: places with their ends."""
    return f"{_KEY}:{account}"


def ends_in(answer: Mapping[str, object]) -> dict[Place, int]:
    """Return up to where a command has written: `offset` of the config topic, `offsets_end` and `status_end`.

    The latter two: {partition: next offset} of the offsets or status topic, for commands that write there.
    """
    ends: dict[Place, int] = {}
    offset = answer.get("offset")
    if isinstance(offset, int):
        ends["config", 0] = offset + 1
    for role in ("offsets", "status"):
        partitions = answer.get(f"{role}_end")
        if isinstance(partitions, dict):
            ends |= {(role, int(partition)): int(end) for partition, end in partitions.items()}
    return ends


def write(pipe: Any, account: str, ends: Mapping[Place, int]) -> None:
    """Add the requests to a pipeline. An end that is there already and later stays."""
    key = key_of(account)
    pipe.zadd(key, {f"{role}:{partition}": end for (role, partition), end in ends.items()}, gt=True)
    pipe.expire(key, KEPT_SECONDS)
