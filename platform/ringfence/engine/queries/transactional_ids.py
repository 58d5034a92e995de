"""Describes the transactional ids of a connector's tasks, as their coordinators know them, and fences one of them."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ringfence.connectors.sdk.kafka_settings.java_names import servers
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName, TaskId, task_transactional_id
from ringfence.fencing.kafka.transaction_descriptions import Transaction, TransactionProber
from ringfence.fencing.leader.fence_generation import AdminAccess, fence, list_admin_access
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

Settings = Mapping[str, str]
Answer = TypeVar("Answer")


def list_clusters(name: str, configs: Iterable[Settings], worker: WorkerConfig) -> list[list[AdminAccess]]:
    """Return the connections to each cluster that tasks with these configurations write to, each cluster once.

    Raises `Refusal`.
    """
    by_servers: dict[frozenset[str], list[AdminAccess]] = {}
    for config in configs:
        try:
            accesses = list_admin_access(None, config, worker.connection("ringfence-transactions"), worker.settings)
        except FencingError as error:
            raise Refusal(400, f"The cluster of connector {name} cannot be reached: {error}") from error
        by_servers.setdefault(servers(accesses[0].connection.bootstrap), accesses)
    return list(by_servers.values())


def ids_of(name: str, tasks: int, worker: WorkerConfig) -> list[str]:
    """Return the transactional ids of tasks 0..tasks-1."""
    return [task_transactional_id(worker.group_id, TaskId(ConnectorName(name), n)) for n in range(tasks)]


def try_each_access(accesses: Iterable[AdminAccess], ask: Callable[[AdminAccess], Answer], purpose: str) -> Answer:
    """Return the answer with the first credentials that work. Raises `Refusal` with the errors of all of them."""
    troubles = []
    for access in accesses:
        try:
            return ask(access)
        except FencingError as error:
            troubles.append(f"with {access.whose}: {error}")
    raise Refusal(500, f"{purpose} {'; '.join(troubles)}")


def describe(
    name: str, tasks: int, configs: Iterable[Settings], worker: WorkerConfig, limit: Deadline
) -> list[dict[str, object]]:
    """Describe the ids of tasks 0..tasks-1 in each cluster of these configurations. Raises `Refusal`."""
    ids = ids_of(name, tasks, worker)

    def ask(access: AdminAccess) -> list[dict[str, object]]:
        with TransactionProber(access.connection) as prober:
            version = prober.feature("transaction.version")
            rows = enumerate(prober.transactions(ids, limit))
            return [{**_serialize(access, n, each), "transaction_version": version} for n, each in rows]

    purpose = f"The transactions of connector {name} cannot be described"
    return [row for accesses in list_clusters(name, configs, worker) for row in try_each_access(accesses, ask, purpose)]


def _serialize(access: AdminAccess, task: int, one: Transaction) -> dict[str, object]:
    now_ms = int(time.time() * 1000)
    return {
        "cluster": access.connection.bootstrap,
        "id": one.transactional_id,
        "task": task,
        "state": one.state,
        "open": one.open,
        "producer_id": one.producer_id,
        "epoch": one.epoch,
        "timeout_ms": one.timeout_ms,
        "started_ms": one.started_ms,
        "age_ms": max(0, now_ms - one.started_ms) if one.open and one.started_ms > 0 else None,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in one.partitions],
    }


def admin_access_of(connector: ConnectorState, worker: WorkerConfig) -> list[AdminAccess]:
    """Return the connections to the tasks' cluster, according to the count record, else the configuration."""
    has_count = connector.count is not None and connector.count.generation is not None
    target = connector.count.target if connector.count is not None and has_count else None
    return list_admin_access(target, connector.config, worker.connection("ringfence-fence"), worker.settings)


def fence_id(
    state: ClusterState, name: ConnectorName, transactional_id: str, worker: WorkerConfig
) -> list[dict[str, object]]:
    """Fence one id of the connector: its open transaction is aborted, and a live task is placed again (invariant 5).

    Raises `Refusal`, also for an id that no task of this connector has.
    """
    if name not in state:
        raise Refusal(404, f"Connector {name} not found")
    prefix = f"{worker.group_id}-{name}-"
    number = transactional_id.removeprefix(prefix)
    if not (
        transactional_id.startswith(prefix) and number.isascii() and number.isdigit() and str(int(number)) == number
    ):
        raise Refusal(
            400, f"{transactional_id} is not an id of connector {name}: it has {prefix}0, {prefix}1 and so on"
        )
    try:
        result = fence([transactional_id], admin_access_of(state.connector(name), worker))
    except FencingError as error:
        raise Refusal(500, f"{transactional_id} could not be fenced: {error}. Send the request again") from error
    return [
        {"id": one.transactional_id, "producer_id": one.producer_id, "epoch": one.epoch} for one in result.producers
    ]
