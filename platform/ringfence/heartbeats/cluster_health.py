"""The state of the cluster, from heartbeats: who is alive, how fresh the data is, what commands wait for. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ringfence.heartbeats.heartbeat import FORGOTTEN_S, WorkerHeartbeat, is_recent
from ringfence.heartbeats.problems import (
    Problem,
    cut_off,
    no_kafka,
    no_leader,
    no_projection,
    no_redis,
    no_worker,
    silent_worker,
    starting,
)

FIRST_READ_S: Final = 30.0
"""Seconds that a new cluster's workers may take to read the topics for the first time."""


@dataclass(frozen=True, slots=True)
class ProjectionAge:
    """The freshness of the projection."""

    age_s: float
    at_ms: int


@dataclass(frozen=True, slots=True)
class FormerProcess:
    """A worker whose earlier processes are gone. incarnation: that of its living one, "" for none; since_s: for so
    long.
    """

    worker: str
    incarnation: str
    since_s: float


@dataclass(frozen=True, slots=True)
class Vitals:
    """The cluster's vital signs. The default means that no heartbeat was ever written."""

    problems: tuple[Problem, ...] = ()
    stale: bool = False
    as_of_ms: int = 0
    """If `stale`: the time of the data, 0 if unknown."""
    behind_s: int = 0
    """If `stale`: how many seconds old the data is, 0 if unknown."""
    silent: frozenset[tuple[str, str]] = frozenset()
    """(worker, incarnation) of those that may or may not be running."""
    former_processes: tuple[FormerProcess, ...] = ()
    """Workers that were started again a while ago, or stopped: what earlier processes of theirs ran, runs no more."""
    leader: str = ""
    """"" if there is no live leader, or it is unknown."""
    is_known: bool = False
    """Whether there are heartbeats: workers of older versions write none."""
    refusal: str = ""
    """Why no worker would accept a request, "" if one would."""
    leader_refusal: str = ""
    """Why no command would be carried out, "" if it would."""

    @property
    def stamp(self) -> str:
        """Return a value that changes when the pages must show something else."""
        living = (f"{each.worker}={each.incarnation}" for each in self.former_processes)
        return "|".join((*(problem.key for problem in self.problems), str(self.stale), self.leader, *living))


def assess(
    beats: Sequence[WorkerHeartbeat],
    projected: ProjectionAge | None,
    redis_error: str = "",
    awaited: Sequence[str] | None = None,
) -> Vitals:
    """Assess the heartbeats. redis_error: why Redis does not answer this process, "" if it does. awaited: what is still
    starting; None if the start is over.
    """
    vitals = _assess(beats, projected, redis_error)
    if awaited is None or vitals.leader:
        return vitals
    problem = starting(awaited)
    words = f"{problem.text} Nothing was sent or changed. {problem.remedy}"
    return replace(
        vitals,
        problems=(problem,),
        refusal=vitals.refusal and words,
        leader_refusal=vitals.leader_refusal and words,
    )


def _assess(beats: Sequence[WorkerHeartbeat], projected: ProjectionAge | None, redis_error: str) -> Vitals:
    live = [beat for beat in beats if beat.live]
    stale, as_of_ms = _staleness(live, beats, projected)
    behind_s = int(projected.age_s) if stale and projected is not None and projected.age_s > 0 else 0
    if not beats:
        return Vitals()
    silent = [beat for beat in beats if not beat.ended and not beat.live]
    leader = next((beat.worker for beat in live if beat.leads), "")
    former_processes = tuple(_find_former_processes(beats))
    if not live:
        last = max(beats, key=lambda beat: beat.at_ms)
        problem = no_worker(last)
        refusal = f"{problem.text} Nothing was sent or changed. {problem.remedy}"
        marks = frozenset((beat.worker, beat.incarnation) for beat in silent)
        return Vitals((problem,), stale, as_of_ms, behind_s, marks, former_processes, "", True, refusal, refusal)
    problems: list[Problem] = []
    refusal = leader_refusal = _cut_off_from_redis(live, leader)
    if not all(beat.redis_error for beat in live):
        refusal = ""
    if all(beat.kafka_error for beat in live):
        problems.append(no_kafka(live, as_of_ms))
        leader_refusal = f"{problems[0].text} Nothing was sent or changed. {problems[0].remedy}"
    else:
        if stale:
            causes = dict.fromkeys(beat.projection_error for beat in live if beat.projection_error)
            problems.append(no_projection(as_of_ms, behind_s, tuple(causes)))
        if not leader:
            problems.append(no_leader(beats))
        problems += [cut_off(beat, "Kafka", beat.kafka_error) for beat in live if beat.kafka_error]
    problems += no_redis(redis_error)
    if not redis_error:
        problems += [cut_off(beat, "Redis", beat.redis_error) for beat in live if beat.redis_error]
    problems += [silent_worker(beat) for beat in silent if beat.age_s <= FORGOTTEN_S]
    marks = frozenset((beat.worker, beat.incarnation) for beat in silent)
    return Vitals(
        tuple(problems), stale, as_of_ms, behind_s, marks, former_processes, leader, True, refusal, leader_refusal
    )


def _find_former_processes(beats: Sequence[WorkerHeartbeat]) -> Iterator[FormerProcess]:
    for beat in beats:
        if beat.ended and beat.age_s <= FORGOTTEN_S:
            yield FormerProcess(beat.worker, "", beat.age_s)
        elif beat.live and beat.began_age_s <= FORGOTTEN_S:
            yield FormerProcess(beat.worker, beat.incarnation, beat.began_age_s)


def _staleness(
    live: Sequence[WorkerHeartbeat], beats: Sequence[WorkerHeartbeat], projected: ProjectionAge | None
) -> tuple[bool, int]:
    if not beats:
        return False, 0
    if projected is not None:
        stale = not is_recent(projected.age_s)
        return stale, projected.at_ms if stale else 0
    return not live or max(beat.began_age_s for beat in live) > FIRST_READ_S, 0


def _cut_off_from_redis(live: Sequence[WorkerHeartbeat], leader: str) -> str:
    """Return why a command would never reach a leader over Redis, "" if it would."""
    cut_off = [beat for beat in live if beat.redis_error]
    if len(cut_off) == len(live):
        return (
            f"No worker reaches Redis ({cut_off[0].redis_error}). Connectors keep running. Nothing was sent or "
            "changed. Check the network between the workers and Redis."
        )
    for beat in cut_off:
        if beat.worker == leader:
            return (
                f"{leader} is the leader, and does not reach Redis ({beat.redis_error}). Connectors keep "
                "running. Nothing was sent or changed. Check the network between them; another "
                "worker that reaches Redis soon takes over."
            )
    return ""
