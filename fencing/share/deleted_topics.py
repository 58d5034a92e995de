"""Which input partitions are gone for ever, so that the ledger need not know them any more.

To forget one that is still there would process its records again. So a topic that cannot be described is not a deleted
one. Deleted is a topic of which its own cluster says, asked for its name, that there is none or that it has another id;
whenever it is asked, and for ten minutes. Ids never come back. A state that does not say which cluster its topic was in
stays: the connector may read from another one now.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.admin import cluster_id, topic_ids
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.offsets.ledger_keys import InputPartition

log = logging.getLogger(__name__)

AFTER_S = 600.0
_EVERY_S: Final = 20.0
_SECONDS: Final = 10.0

Places = Mapping[InputPartition, tuple[str, str]]
"""Input partitions, with the topic's name and the id of its cluster as the ledger has them; "" where it has none."""


class Absences:
    """Since when each partition's topic has been away, without a word to the contrary. Pure."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._since: dict[InputPartition, float] = {}

    def note(self, now: float, places: Places, cluster: str, found: Mapping[str, str | None]) -> list[InputPartition]:
        """The partitions that are gone. found: the id that each name has in this cluster, None where it says that there
        is no such topic; without the names of which nobody can tell.
        """
        away = [
            tp
            for tp, (name, home) in places.items()
            if name in found and found[name] != tp.topic_id and home and home == cluster
        ]
        self._since = {tp: self._since.get(tp, now) for tp in away}
        return [tp for tp, since in self._since.items() if now - since >= self._after_s]


class DeletedTopics:
    """Asks the input's cluster, every now and then."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._absences = Absences(AFTER_S)
        self._every_s = min(_EVERY_S, AFTER_S / 4)
        self._looked_at = clock.monotonic()

    def look(self, places: Places) -> list[InputPartition]:
        """Those that are gone. Raises nothing: who cannot tell knows of none."""
        now = self._clock.monotonic()
        if now - self._looked_at < self._every_s or not places:
            return []
        self._looked_at = now
        limit = Deadline.after(_SECONDS, self._clock)
        try:
            cluster = cluster_id(self._connection, limit)
            return self._absences.note(now, places, cluster, self._ask({name for name, _ in places.values()}, limit))
        except FencingError as error:
            log.info("%s", error)
            return self._absences.note(now, places, "", {})

    def _ask(self, names: Iterable[str], limit: Deadline) -> dict[str, str | None]:
        """One by one: what cannot be told of one name says nothing of the others."""
        found: dict[str, str | None] = {}
        for name in sorted(set(names) - {""}):
            try:
                found |= topic_ids(self._connection, [name], limit)
            except FencingError as error:
                log.info("%s", error)
        return found
