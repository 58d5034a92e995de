"""The state of the cluster, from heartbeats: who is alive, how fresh the data is, what commands wait for. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

SILENT_S: Final = 10.0
"""Seconds. A worker writes every two seconds: one that is silent for longer than this is frozen, dead, or cut off."""

FORGOTTEN_S: Final = 600.0
"""Seconds. While other workers live, a silent worker is reported for this long. By then its tasks have moved."""


def is_recent(age_s: float) -> bool:
    """A time in the future is not recent, either: it was written before the database's clock was set back, and is
    meaningless now. A live worker writes again within seconds.
    """
    return -SILENT_S <= age_s <= SILENT_S


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """A worker's heartbeat. age_s: since it was written; led_age_s: since its last one as the leader, if any."""

    worker: str
    incarnation: str
    age_s: float
    began_age_s: float
    at_ms: int
    led_age_s: float | None = None
    kafka_error: str = ""
    redis_error: str = ""
    ended: bool = False
    projection_error: str = ""

    @property
    def live(self) -> bool:
        return not self.ended and is_recent(self.age_s)

    @property
    def leads(self) -> bool:
        return self.live and self.led_age_s is not None and is_recent(self.led_age_s)


@dataclass(frozen=True, slots=True)
class Problem:
    """One failure. text: what failed, and the consequences; remedy: what to do. since_ms: 0 if unknown.

    No clock stands in the words, since people in several time zones read them. grave: the displayed data may be
    outdated.
    """

    key: str
    text: str
    remedy: str
    since_ms: int = 0
    grave: bool = False


def starting(names: Sequence[str]) -> Problem:
    """names: what `ringfence up` has not started yet."""
    if len(names) > 1:
        who = f"{', '.join(names[:-1])} and {names[-1]} are"
    else:
        who = f"{names[0]} is" if names else "the leader is"
    return Problem(
        "starting",
        f"Ringfence is starting: {who} not ready yet. Nothing is placed, restarted or changed until then.",
        "Wait some seconds. If it takes minutes, read what `ringfence up` prints.",
    )


def no_worker(last: WorkerHeartbeat) -> Problem:
    ended = f"{last.worker} was stopped" if last.ended else f"{last.worker} was the last to report"
    return Problem(
        "no-worker",
        f"No worker reports: {ended}. Nothing is placed, restarted or changed.",
        "Start a worker, or read the last one's log.",
        last.at_ms,
        grave=True,
    )


def no_kafka(live: Sequence[WorkerHeartbeat], as_of_ms: int) -> Problem:
    who = "the only worker" if len(live) == 1 else f"any of {len(live)} workers"
    return Problem(
        "no-kafka",
        f"Kafka does not answer {who}. Connectors wait, and nothing can be changed.",
        "Check the brokers and the network between.",
        as_of_ms,
        grave=True,
    )


def no_projection(as_of_ms: int, behind_s: int = 0, causes: Sequence[str] = ()) -> Problem:
    """causes: what the projectors of live workers wait for."""
    since = f" for {behind_s} s" if behind_s > 0 else ""
    cause = f" It waits: {'; '.join(causes)}." if causes else ""
    return Problem(
        "no-projection",
        f"Nothing new is read from Kafka into the database{since}.{cause} Tasks may continue unseen.",
        "Read the workers' logs: they say what the projection waits for.",
        as_of_ms,
        grave=True,
    )


def no_leader(beats: Sequence[WorkerHeartbeat]) -> Problem:
    led = [(beat.led_age_s, beat) for beat in beats if beat.led_age_s is not None]
    since_ms = 0
    if led:
        age_s, beat = min(led, key=lambda each: each[0])
        since_ms = beat.at_ms - int((age_s - beat.age_s) * 1000)
    return Problem(
        "no-leader",
        "No worker leads. Tasks keep running, but nothing is placed, restarted or changed, and commands wait.",
        "The workers elect a leader within seconds; if they do not, their logs say why.",
        since_ms,
    )


def no_redis(error: str) -> tuple[Problem, ...]:
    if not error:
        return ()
    text = f"Redis does not answer ({error}). Connectors keep running, but no command can be sent."
    return (Problem("no-redis", text, "Check that Redis runs at RINGFENCE_REDIS_URL."),)


def cut_off(beat: WorkerHeartbeat, what: str, error: str) -> Problem:
    follows = "Its tasks wait" if what == "Kafka" else "It takes no requests"
    return Problem(
        f"no-{what.lower()}-{beat.worker}",
        f"{beat.worker} does not reach {what}. {follows}.",
        f"Check the network between: {error}",
    )


def silent_worker(beat: WorkerHeartbeat) -> Problem:
    return Problem(
        f"silent-{beat.worker}",
        f"{beat.worker} does not report: it is frozen, dead, or cut off.",
        "Its tasks are placed on other workers if those have free slots.",
        beat.at_ms,
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
