"""Decides whether a worker is silent, from its heartbeats and from its answers. Pure: `watch, evidence -> watch`.

A wrong suspicion costs a fence, so suspicion may be quick. But a worker that is only slow must not be moved to and fro:

- Silence counts only as long as the observer could have heard something. Of a pause between two looks, however long,
  half a second counts: an observer that was suspended itself, or starved, suspects nobody because of that.
- Heartbeats alone are no evidence, since only the way that they take may be broken. A worker without heartbeats is
  asked in the status topic, and suspected if it does not answer, although the observer has read its own question there.
- Nobody is suspected whom the observer has not heard before.
- A worker that was suspected has to be silent for longer the next time. Until it was calm for a while, which grows,
  too, it gets further tasks only if no other worker has a slot for them.

What it decides is in the status topic (`SuspicionRecord`), so the next leader continues with it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ringfence.fencing.ids import ConnectorName, Incarnation, WorkerId
from ringfence.fencing.leader.next_placement import LiveWorker, Place, place_of
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.status import AnswerRecord, SuspicionRecord, Trust

_Record = TypeVar("_Record", SuspicionRecord, AnswerRecord)

SILENCE_S: Final = 2.0
"""How long a worker is silent before it is suspected for the first time."""
LONGEST_SILENCE_S: Final = 8.0
"""A silent worker leaves the group soon after that anyway."""
QUESTION_S: Final = 1.2
"""How long before that a worker is asked."""
ANSWER_S: Final = 0.8
"""How long a worker has for an answer, from when the observer has read its own question."""
CALM_S: Final = 30.0
LONGEST_CALM_S: Final = 600.0
FORGIVEN_S: Final = 3600.0
"""After so long without a suspicion, the earlier ones are forgotten."""
MOST_S: Final = 0.5
"""What counts of the time between two looks."""


def silence_s(times: int) -> float:
    """Return how long a worker that was suspected so often may be silent."""
    return min(LONGEST_SILENCE_S, SILENCE_S * (1 << min(times, 16)))


def calm_s(times: int) -> float:
    """Return how long a worker that was suspected so often waits for tasks after it is back."""
    return min(LONGEST_CALM_S, CALM_S * (1 << max(0, min(times, 16) - 1)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an observer sees in one look.

    seconds: since its last look. heartbeat: the newest one, None if there is none. hears: whether heartbeats could be
    read, and written, at all. record, answer: what the status topic says about this incarnation; None, 0 for nothing.
    """

    seconds: float
    heartbeat: int | None
    hears: bool
    record: SuspicionRecord | None = None
    answer: int = 0


@dataclass(frozen=True, slots=True)
class Watch:
    """What an observer knows of one worker process. silent_s, calm_s: counted as above. unanswered_s: for how long it
    has known the newest question, as long as there is no answer to it.
    """

    heartbeat: int | None = None
    answer: int = 0
    was_heard: bool = False
    is_heard: bool = False
    """Whether the last look found a sign of life."""
    silent_s: float = 0.0
    calm_s: float = 0.0
    unanswered_s: float = 0.0
    record: SuspicionRecord | None = None

    @property
    def trust(self) -> Trust:
        return self.record.trust if self.record is not None else Trust.TRUSTED

    @property
    def times(self) -> int:
        return self.record.times if self.record is not None else 0

    @property
    def question(self) -> int:
        return self.record.question if self.record is not None else 0


def look(watch: Watch | None, evidence: Evidence) -> Watch:
    """Return what is known after a look. watch: None for the first one, which only shows what was there before."""
    if watch is None:
        return Watch(evidence.heartbeat, evidence.answer, record=evidence.record)
    seconds = min(max(0.0, evidence.seconds), MOST_S)
    beats = None not in (evidence.heartbeat, watch.heartbeat) and evidence.heartbeat != watch.heartbeat
    is_heard = beats or evidence.answer > watch.answer
    silent = 0.0 if is_heard or not evidence.hears else watch.silent_s + seconds
    is_calm = silent < SILENCE_S / 2 and (evidence.record is None or evidence.record.trust is not Trust.SUSPECTED)
    after = Watch(
        watch.heartbeat if evidence.heartbeat is None else evidence.heartbeat,
        evidence.answer,
        watch.was_heard or is_heard,
        is_heard,
        silent,
        (watch.calm_s + seconds if evidence.hears else watch.calm_s) if is_calm else 0.0,
        record=evidence.record,
    )
    is_open = 0 < after.question == watch.question and evidence.answer < after.question
    return replace(after, unanswered_s=watch.unanswered_s + seconds if is_open else 0.0)


def decide(watch: Watch, worker: WorkerId, incarnation: Incarnation, delay_s: float = 0.0) -> SuspicionRecord | None:
    """Return the record to write about this worker, without author and time; None if it is to stay as it is.

    delay_s: by how much longer than others this observer waits.
    """
    record = watch.record or SuspicionRecord(worker, incarnation)
    if record.trust is Trust.SUSPECTED:
        is_back = watch.is_heard or watch.answer >= record.question
        return replace(record, trust=Trust.CALMING) if is_back else None
    limit = silence_s(record.times) + delay_s
    if watch.was_heard and watch.silent_s >= limit - QUESTION_S:
        if watch.unanswered_s >= ANSWER_S and watch.silent_s >= limit:
            return replace(record, trust=Trust.SUSPECTED, times=record.times + 1)
        if watch.answer >= record.question:
            return replace(record, question=record.question + 1)
        return None
    if record.trust is Trust.CALMING:
        return replace(record, trust=Trust.TRUSTED) if watch.calm_s >= calm_s(record.times) else None
    return replace(record, times=0) if record.times and watch.calm_s >= FORGIVEN_S else None


def trust_of(suspicions: Mapping[WorkerId, SuspicionRecord], place: Place) -> Trust:
    """Return whether the status topic trusts a worker process."""
    record = find_record(suspicions, place)
    return record.trust if record is not None else Trust.TRUSTED


def find_record(records: Mapping[WorkerId, _Record], place: Place) -> _Record | None:
    """Return the record of a worker, if it is about this incarnation."""
    record = records.get(place[0])
    return record if record is not None and record.incarnation == place[1] else None


class PlaceCounts:
    """Counts the placements at each place. It looks at what has changed since its last call."""

    def __init__(self) -> None:
        self._state = ClusterState()
        self._counts: Counter[Place] = Counter()

    def of(self, state: ClusterState) -> Mapping[Place, int]:
        """Return the number of placements of existing connectors by their places."""
        for name in state.changes_since(self._state):
            for place in _places(self._state, name):
                self._counts[place] -= 1
            for place in _places(state, name):
                self._counts[place] += 1
        self._state = state
        return self._counts


def _places(state: ClusterState, name: ConnectorName) -> Iterator[Place]:
    return map(place_of, state.connector(name).placements.values() if name in state else ())


def take_out(
    members: Iterable[LiveWorker],
    suspicions: Mapping[WorkerId, SuspicionRecord],
    state: ClusterState,
    counts: PlaceCounts | None = None,
) -> list[LiveWorker]:
    """Return the members without suspected ones. Of one that is calming, the slots that are free are in reserve.

    counts: kept by a caller that calls it again and again.
    """
    members = list(members)
    trust = {(each.worker, each.incarnation): trust_of(suspicions, (each.worker, each.incarnation)) for each in members}
    if all(each is Trust.TRUSTED for each in trust.values()):
        return members
    places = (counts or PlaceCounts()).of(state)
    remaining = []
    for member in members:
        place = (member.worker, member.incarnation)
        if trust[place] is Trust.TRUSTED:
            remaining.append(member)
        elif trust[place] is Trust.CALMING:
            slots = min(member.slots, places.get(place, 0))
            remaining.append(replace(member, slots=slots, reserve=member.slots - slots))
    return remaining
