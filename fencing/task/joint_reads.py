"""What the attempts of one process ask the brokers for together.

Each attempt's answer is as new as if it had asked alone (`fencing.task.gathering`). So no order of its start changes,
only the number of clients, logins and requests.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.client_pool import ClientPool, login_of
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import Hanging, HangingProber
from ringfence.fencing.leader.older_epochs import Epochs
from ringfence.fencing.offsets.source_offsets import OffsetsSnapshot, SourceOffsets
from ringfence.fencing.offsets.tails import TailRequest, read_tails
from ringfence.fencing.task.config_follower import ConfigFollower
from ringfence.fencing.task.gathering import Gathering
from ringfence.fencing.topics.topic_ids import Topics

_clients: Final = ClientPool(HangingProber)


class JointReads:
    """Thread-safe."""

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self.follower = ConfigFollower(connection, topics, keeps_all=True)
        self._lock = threading.Lock()
        self._tails: dict[Hashable, Gathering[TailRequest, SourceOffsets | None]] = {}
        self._probes: dict[Hashable, Gathering[frozenset[str], Sequence[Hanging]]] = {}

    def read_offsets(
        self,
        connection: Connection,
        topic: str,
        snapshot: OffsetsSnapshot,
        give_up: Callable[[], bool],
        deadline: Deadline,
    ) -> SourceOffsets | None:
        """Return the committed offsets of the snapshot's connector at the current end of the topic; None if the
        snapshot does not help.
        """
        key = login_of(connection), topic
        with self._lock:
            gathering = self._tails.get(key)
            if gathering is None:
                gathering = self._tails[key] = Gathering(partial(read_tails, connection, topic))
        return gathering.ask(TailRequest(snapshot, give_up, deadline))

    def has_leftovers(self, connection: Connection, topics: Collection[str], epochs: Epochs) -> bool:
        """Return whether a transaction of an older epoch may be open on these topics. If that cannot be found out with
        this connection, one may be.
        """
        if not (topics and epochs):
            return False
        key = login_of(connection)
        with self._lock:
            gathering = self._probes.get(key)
            if gathering is None:
                gathering = self._probes[key] = Gathering(partial(_find_open, connection))
        try:
            transactions = gathering.ask(frozenset(topics))
        except FencingError:
            return True
        return any(each.epoch < epochs.get(each.producer_id, -1) for each in transactions)


def _find_open(connection: Connection, questions: Sequence[frozenset[str]]) -> Sequence[Sequence[Hanging]]:
    """Return the open transactions on each of these sets of topics."""
    topics = frozenset[str]().union(*questions)
    by_topic: dict[str, list[Hanging]] = defaultdict(list)
    for each in _clients.call(connection, lambda prober: prober.open_on(topics)):
        by_topic[each.topic].append(each)
    return [[each for topic in question for each in by_topic.get(topic, ())] for question in questions]
