"""Where batches go: the partition of each, and the partition's leader."""

import random
import time
from collections.abc import Callable
from itertools import count
from typing import Final

from kafka.errors import for_code
from kafka.partitioner.default import murmur2

from ringfence.connectors.api.records import EncodedBatch
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.transaction_requests import Place, TransactionRequests

Keyed = tuple[str, bytes]
"""The topic and the key of a record."""

UNKNOWN_TOPIC: Final = 3
NO_LEADER: Final = 5
MAYBE_WRITTEN: Final = frozenset({None, 7, 13, 20})
"""No response, request timed out, network error, too few replicas after the append."""
# Of partition leaders: unknown topic, no leader, another leader, the above, too few replicas, storage error.
REPEAT: Final = MAYBE_WRITTEN | {UNKNOWN_TOPIC, NO_LEADER, 6, 19, 56}

_SECONDS: Final = 300.0
_MOST_HASHES: Final = 1000


class PartitionLeaders:
    """Asks the brokers for leaders, and again after five minutes, since topics may get more partitions.

    pause(deadline, failures, reason): waits before a request is repeated, or raises. error: returns a code's error.
    """

    def __init__(
        self,
        requests: TransactionRequests,
        pause: Callable[[Deadline, int, str], None],
        error: Callable[[int], FencingError],
    ) -> None:
        self._requests = requests
        self._pause = pause
        self._error = error
        self._entries: dict[str, tuple[float, list[int]]] = {}
        self._hashes: dict[bytes, int] = {}

    def leader_of(self, place: Place) -> int:
        """Return the leader that was found last, -1 for none."""
        leaders = self._entries[place[0]][1]
        return leaders[place[1]] if place[1] < len(leaders) else -1  # the topic was created again, with fewer

    def choose(self, batch: EncodedBatch, deadline: Deadline) -> Place:
        """Return where the batch goes. Raises `Fatal` if its topic has no such partition."""
        leaders = self.find(batch.topic, deadline)
        if batch.partition >= len(leaders):
            leaders = self.find(batch.topic, deadline, again=True)
        if batch.partition >= len(leaders):
            raise Fatal(
                f"A record names partition {batch.partition} of topic {batch.topic}, which has "
                f"{len(leaders)}. Add partitions to the topic, or change what sets the record's partition"
            )
        if batch.partition >= 0:
            return batch.topic, batch.partition
        reachable = [number for number, leader in enumerate(leaders) if leader >= 0]
        return batch.topic, random.choice(reachable or range(len(leaders)))  # noqa: S311 - not a secret

    def place_of_key(self, topic: str, key: bytes, deadline: Deadline) -> Place:
        """Return where librdkafka's partitioner sends the record."""
        key_hash = self._hashes.get(key)
        if key_hash is None:
            if len(self._hashes) >= _MOST_HASHES:
                self._hashes.clear()
            key_hash = self._hashes[key] = murmur2(key) & 0x7FFFFFFF
        return topic, key_hash % len(self.find(topic, deadline))

    def find(self, topic: str, deadline: Deadline, *, again: bool = False) -> list[int]:
        """Return the leader of each partition, -1 for none."""
        entry = self._entries.get(topic)
        if entry is not None and not again and time.monotonic() - entry[0] < _SECONDS:
            return entry[1]
        for failures in count(1):
            code, leaders = self._requests.find_leaders(topic)
            if code == 0 and leaders:
                self._entries[topic] = time.monotonic(), leaders
                return leaders
            if code and code not in REPEAT:
                raise self._error(code)
            self._pause(deadline, failures, f"topic {topic}, {explain(code)}")
        raise AssertionError("unreachable")


def explain(code: int | None) -> str:
    """Return an error code's name; None stands for no response."""
    return "no response" if code is None else for_code(code).__name__
