"""The metrics of the cluster as a whole: its leader, the elections of its group, and what does not answer."""

from typing import Final

from ringfence.heartbeats.cluster_health import Vitals
from ringfence.metrics.text import Families, Family, Kind, labels
from ringfence.projection.models import ClusterInfo

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
