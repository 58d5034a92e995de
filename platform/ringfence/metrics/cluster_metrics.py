"""The metrics of the cluster as a whole: its leader, the elections of its group, and what does not answer."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ringfence.fencing.topics.status import Trust
from ringfence.heartbeats.cluster_health import Vitals
from ringfence.metrics.text import Families, Family, Kind, Sample, labels
from ringfence.projection.models import ClusterInfo, Connector, Startups, Suspicion, Task, Worker

WORKER_PREFIX: Final = "kafka_connect_connect_worker_metrics_"
_C, _G = Kind.COUNTER, Kind.GAUGE


def workers(
    rows: Sequence[Worker],
    startups: Iterable[Startups],
    connectors: Iterable[Connector],
    tasks: Sequence[Task],
    suspicions: Iterable[Suspicion] = (),
) -> Families:
    """Return the families of the workers that are members, and the startups of those that have left, too."""
    counts = Counter(row.worker for row in connectors if row.state in ("RUNNING", "PAUSED", "FAILED"))
    placed = Counter(task.worker for task in tasks if task.state in ("RUNNING", "PAUSED", "RESTARTING"))
    assigned = Counter(task.worker for task in tasks if task.state and task.state != "UNASSIGNED")
    by_worker = {row.worker: row for row in startups} | {
        row.worker: Startups(worker=row.worker) for row in rows if row.worker not in {one.worker for one in startups}
    }

    def each(value: Callable[[Startups], float | None]) -> list[Sample]:
        values = [(name, value(row)) for name, row in sorted(by_worker.items())]
        return [(labels({"worker": name}), number) for name, number in values if number is not None]

    def members(value: Callable[[Worker], float]) -> list[Sample]:
        return [(labels({"worker": row.worker}), value(row)) for row in rows]

    suspicion_of = {(one.worker, one.incarnation): one for one in suspicions}

    def is_suspected(row: Worker) -> float:
        one = suspicion_of.get((row.worker, row.incarnation))
        return 1.0 if one is not None and one.trust == Trust.SUSPECTED else 0.0

    def suspicion_count(row: Worker) -> float:
        one = suspicion_of.get((row.worker, row.incarnation))
        return 0.0 if one is None else float(one.times)

    coordinator = "kafka_connect_connect_coordinator_metrics_"
    families: Families = [
        (
            Family(coordinator + "assigned_connectors", _G, "Connector instances that the worker has.", ""),
            members(lambda row: counts[row.worker]),
        ),
        (
            Family(coordinator + "assigned_tasks", _G, "Tasks that are placed on the worker, failed ones too.", ""),
            members(lambda row: assigned[row.worker]),
        ),
        (
            Family(
                WORKER_PREFIX + "connector_count",
                _G,
                "Connector instances that the worker runs: the leader runs all.",
                "",
            ),
            members(lambda row: counts[row.worker]),
        ),
        (
            Family(WORKER_PREFIX + "task_count", _G, "Tasks that the worker runs.", "it equals ringfence_worker_slots"),
            members(lambda row: placed[row.worker]),
        ),
        (
            Family("ringfence_worker_slots", _G, "Tasks that the worker can run at once.", ""),
            members(lambda row: row.slots),
        ),
        (
            Family(
                "ringfence_worker_suspected",
                _G,
                "1 while the worker is silent and its tasks are placed elsewhere.",
                "it is 1",
            ),
            members(is_suspected),
        ),
        (
            Family(
                "ringfence_worker_suspicions",
                _G,
                "How often the worker was suspected, until it was calm for an hour.",
                "it grows while the worker runs: its machine is overloaded, or its network is unsteady",
            ),
            members(suspicion_count),
        ),
    ]
    for what, name in (("connector", "Connector instances"), ("task", "Tasks")):
        families += _startups(what, name, each)
    return families


def _startups(what: str, name: str, each: Callable[[Callable[[Startups], float | None]], list[Sample]]) -> Families:
    def successes(row: Startups) -> int:
        return row.connector_successes if what == "connector" else row.task_successes

    def failures(row: Startups) -> int:
        return row.connector_failures if what == "connector" else row.task_failures

    def attempts(row: Startups) -> int:
        return successes(row) + failures(row) if what == "connector" else row.task_attempts

    def share(part: Callable[[Startups], int]) -> Callable[[Startups], float | None]:
        return lambda row: part(row) / max(1, successes(row) + failures(row)) if attempts(row) else None

    prefix = f"{WORKER_PREFIX}{what}_startup_"
    return [
        (
            Family(prefix + "attempts_total", _C, f"{name} that the worker was to start.", "it grows fast"),
            each(attempts),
        ),
        (
            Family(prefix + "success_total", _C, f"{name} that came up.", "it stays behind the attempts"),
            each(successes),
        ),
        (Family(prefix + "failure_total", _C, f"{name} that failed before they came up.", "it grows"), each(failures)),
        (
            Family(prefix + "success_percentage", _G, "The share of startups that came up, 0 to 1.", "it is below 1"),
            each(share(successes)),
        ),
        (
            Family(prefix + "failure_percentage", _G, "The share of startups that failed, 0 to 1.", "it is above 0"),
            each(share(failures)),
        ),
    ]


PROBLEMS: Final = ("no-worker", "no-kafka", "no-projection", "no-leader", "no-redis")
"""Those that have a sample even if there is no problem."""
_REBALANCE: Final = "kafka_connect_connect_worker_rebalance_metrics_"
_LEADER: Final = Family("ringfence_leader_info", Kind.GAUGE, "1; the label is the worker that leads.", "it is missing")
_PROBLEM: Final = Family(
    "ringfence_cluster_problem",
    Kind.GAUGE,
    "1 while Kafka, Redis, the leader, a worker or the projection does not answer, as the head of each page says.",
    "it is 1",
)
_EPOCH: Final = Family(_REBALANCE + "epoch", Kind.GAUGE, "The generation of the workers' group.", "")
_COMPLETED: Final = Family(
    _REBALANCE + "completed_rebalances_total",
    Kind.COUNTER,
    "Rebalances of the workers' group up to its last election.",
    "it grows while no worker comes or goes",
)
_SINCE: Final = Family(
    _REBALANCE + "time_since_last_rebalance_ms",
    Kind.GAUGE,
    "Milliseconds since the group's leader was elected.",
    "it is small again and again",
)
_REBALANCING: Final = Family(
    _REBALANCE + "rebalancing", Kind.GAUGE, "1 while the group has no leader.", "it stays 1 for more than some seconds"
)


def cluster(info: ClusterInfo | None, vitals: Vitals, now_ms: int) -> Families:
    """Return the families of the cluster. info: None before the first leader."""
    leader = vitals.leader if vitals.is_known else (info.leader if info else "")
    problems = dict.fromkeys(PROBLEMS, 0.0) | {problem.key: 1.0 for problem in vitals.problems}
    led = info is not None and info.since_ms > 0
    generation = info.group_generation if info else -1
    return [
        (_LEADER, [(labels({"worker": leader}), 1.0)] if leader else []),
        (_PROBLEM, [(labels({"problem": key}), value) for key, value in problems.items()]),
        (_EPOCH, [("", float(generation))] if led else []),
        (_COMPLETED, [("", float(max(0, generation)))] if led else []),
        (_SINCE, [("", float(max(0, now_ms - info.since_ms)))] if info and led else []),
        (_REBALANCING, [("", 0.0 if leader else 1.0)]),
    ]
