"""The metrics of the cluster as a whole, of connectors, and of the states of their tasks."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final

from django.db.models import Exists, OuterRef

from ringfence.fencing.topics.status import Trust
from ringfence.heartbeats.cluster_health import Vitals
from ringfence.metrics.text import Families, Family, Kind, Sample, labels
from ringfence.projection.health import KnownHealth, find_data_age
from ringfence.projection.models import ClusterInfo, Connector, GenerationRow, Startups, Suspicion, Task, Worker
from ringfence.projection.progress_reports import metrics_of

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


CONNECTOR_FIELDS: Final = (
    "name", "class_name", "type", "state", "worker", "version", "unreadable", "generation", "task_count", "fencing",
    "rounds_total", "fenced_total", "hanging_ended_total", "health", "records_total", "skipped_total",
    "dead_letters_total", "aborted_records_total", "trouble_since_ms",
)  # fmt: skip

_CONNECTOR: Final = "kafka_connect_connector_metrics_"
_SHOWN_STATES = ("RUNNING", "PAUSED", "FAILED", "UNASSIGNED", "RESTARTING", "DESTROYED")
PREFIX = "ringfence_source_"


def round_times() -> dict[str, float]:
    """Return how many seconds the fencing round of each connector's newest generation took, once it is finished."""
    newest = Connector.objects.filter(name=OuterRef("connector"), generation=OuterRef("generation"))
    rows = GenerationRow.objects.filter(Exists(newest), stage="done")
    return {name: took_ms / 1000 for name, took_ms in rows.values_list("connector", "took_ms")}


def connectors(rows: Sequence[Connector], tasks: Sequence[Task], health: KnownHealth) -> Families:
    """Return the families of the connectors, and of the states of their tasks."""
    labelled = {row.name: labels({"connector": row.name}) for row in rows}
    count: Counter[tuple[str, str]] = Counter((task.connector, task.state or "UNASSIGNED") for task in tasks)

    def column(name: str, kind: Kind, meaning: str, bad: str, field: str) -> tuple[Family, list[Sample]]:
        value = attrgetter(field)
        return Family(name, kind, meaning, bad), [(labelled[row.name], value(row)) for row in rows]

    def in_state(state: str) -> tuple[Family, list[Sample]]:
        word = state.lower()
        family = Family(
            f"{WORKER_PREFIX}connector_{word}_task_count",
            _G,
            f"Tasks of the connector that are {word}.",
            _BAD.get(state, ""),
        )
        return family, [(labelled[row.name], count[row.name, state]) for row in rows]

    took = round_times()
    return [
        *_descriptions(rows, health),
        column(*_TASK_COUNT),
        *(in_state(state) for state in _SHOWN_STATES),
        *(column(*each) for each in _COLUMNS),
        (_ROUND, [(label, took[name]) for name, label in labelled.items() if name in took]),
        _data_age(rows, tasks, health.now_ms),
    ]


def _data_age(rows: Sequence[Connector], tasks: Sequence[Task], now_ms: int) -> tuple[Family, list[Sample]]:
    by_name: dict[str, list[Task]] = {row.name: [] for row in rows}
    for task in tasks:
        by_name[task.connector].append(task)
    family = Family(
        "ringfence_connector_data_age_seconds",
        _G,
        "Seconds since the time as of which all that the source had is committed; missing while that is unknown.",
        "it is above what readers of the topics accept",
    )
    times = {name: find_data_age(of_name) for name, of_name in by_name.items()}
    ages = {name: max(0, now_ms - at) / 1000 for name, at in times.items() if at}
    return family, [(labels({"connector": name}), age) for name, age in ages.items()]


def _descriptions(rows: Sequence[Connector], known_health: KnownHealth) -> Families:
    """Return the families of each connector's state, class and health, which are labels."""
    states = {row.name: "failed" if row.unreadable else row.state.lower() for row in rows}
    health = Family(
        "ringfence_connector_health",
        _G,
        "1 for the connector's health, in the label `health`; unknown if it cannot be determined now.",
        "it is unhealthy, degraded, retrying, waiting, stalled or unknown",
    )
    return [
        (
            Family(_CONNECTOR + "status", _G, "1 for the connector's state, in the label `status`.", "it is failed"),
            [(labels({"connector": name, "status": state}), 1.0) for name, state in states.items() if state],
        ),
        (
            Family(_CONNECTOR + "info", _G, "1; the labels are the connector's class, type and running version.", ""),
            [(_info(row), 1.0) for row in rows],
        ),
        (
            health,
            [(labels({"connector": row.name, "health": known_health.health_of(row).lower()}), 1.0) for row in rows],
        ),
    ]


def _info(row: Connector) -> str:
    return labels(
        {
            "connector": row.name,
            "connector_class": row.class_name,
            "connector_type": row.type,
            "connector_version": row.version or "unknown",
        }
    )


_TASK_COUNT: Final = (
    f"{WORKER_PREFIX}connector_total_task_count",
    _G,
    "Tasks of the connector's newest generation.",
    "it is 0 for a running connector",
    "task_count",
)
_COLUMNS: Final = (
    (
        "ringfence_connector_records_total",
        _C,
        "Records committed to their topics, over all tasks and attempts; only deleting the connector resets it.",
        "it does not grow although the source has new data",
        "records_total",
    ),
    (
        "ringfence_connector_dead_letters_total",
        _C,
        "Records that went to the dead letter queue.",
        "it grows",
        "dead_letters_total",
    ),
    (
        "ringfence_connector_skipped_records_total",
        _C,
        "Records that could not be processed and were dropped (errors.tolerance=all without a dead letter queue).",
        "it grows",
        "skipped_total",
    ),
    (
        "ringfence_connector_aborted_records_total",
        _C,
        "Records of aborted transactions, at least: those that a killed task sent after its last report are missing.",
        "it grows steadily",
        "aborted_records_total",
    ),
    (
        "ringfence_connector_generation",
        _G,
        "The connector's generation: an offset in the config topic, -1 before the first.",
        "it changes again and again: something reconfigures the connector",
        "generation",
    ),
    (
        "ringfence_connector_fencing",
        _G,
        "1 while the newest generation waits until all older tasks are fenced.",
        "it stays 1 for more than some seconds: fencing fails, the connector's page says why",
        "fencing",
    ),
    (
        "ringfence_connector_fencing_rounds_total",
        _C,
        "Fencing rounds that were finished, one for each new generation.",
        "it grows again and again by itself",
        "rounds_total",
    ),
    (
        "ringfence_connector_fencings_total",
        _C,
        "Transactional ids that fencing rounds have fenced.",
        "it grows again and again by itself",
        "fenced_total",
    ),
    (
        "ringfence_connector_hanging_transactions_ended_total",
        _C,
        "Transactions open on a partition and unknown to their coordinator (KIP-664) that were ended.",
        "it grows: requests arrive late, check the brokers and the network",
        "hanging_ended_total",
    ),
)
"""Name, kind, meaning, when it is bad, and the column."""
_ROUND: Final = Family(
    "ringfence_connector_fencing_round_seconds",
    _G,
    "How long the newest generation's fencing round took; missing until it is finished.",
    "it is more than some seconds: nothing is read while it lasts",
)
_BAD = {
    "FAILED": "it is above 0",
    "UNASSIGNED": "it stays above 0: slots are missing, or fencing fails",
    "PAUSED": "it was paused and not resumed",
    "RESTARTING": "it stays above 0",
    "DESTROYED": "it is above 0: none is ever shown, as a task that has ended is removed",
    "RUNNING": "it is below connector_total_task_count for long",
}


def families(tasks: Iterable[Task], now_ms: int) -> list[tuple[Family, list[Sample]]]:
    """Return the families of these tasks, by name. The first plugin that has a family describes it."""
    by_name: dict[str, tuple[Family, list[Sample]]] = {}
    for task in tasks:
        for metric in metrics_of([task], now_ms):
            name = PREFIX + metric.full_name
            bad = f"it is above {metric.shown_limit}" if metric.limit is not None else ""
            _, samples = by_name.setdefault(name, (Family(name, Kind.GAUGE, f"{metric.description}.", bad), []))
            where = {"connector": task.connector, "task": task.number, **metric.labels}
            samples.append((labels(where), metric.value))
    return [by_name[name] for name in sorted(by_name)]
