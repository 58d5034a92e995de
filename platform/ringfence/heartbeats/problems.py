"""What does not answer, in words for the head of each page: Kafka, Redis, leader, workers, projection. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringfence.heartbeats.heartbeat import WorkerHeartbeat


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
