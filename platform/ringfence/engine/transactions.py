"""The transactional ids of a connector's tasks: what the coordinators know of them, and fencing one of them now."""

import time
from collections.abc import Mapping

from fencing.clock import Deadline
from fencing.cluster_state import ClusterState, ConnectorState
from fencing.errors import FencingError
from fencing.fence import fence
from fencing.ids import ConnectorName, TaskId, task_transactional_id
from fencing.kafka.transactions import TransactionProber
from fencing.targets import Way, ways
from ringfence.engine.refusal import Refusal
from ringfence.worker_config import WorkerConfig


def describe(
    name: str, tasks: int, config: Mapping[str, str], worker: WorkerConfig, limit: Deadline
) -> list[dict[str, object]]:
    """The ids of tasks 0..tasks-1, with the first credentials that may ask. Raises `Refusal`."""
    ids = [task_transactional_id(worker.group_id, TaskId(ConnectorName(name), n)) for n in range(tasks)]
    troubles = []
    try:
        found_ways = ways(None, config, worker.connection("ringfence-transactions"), worker.settings)
    except FencingError as error:
        raise Refusal(400, f"The cluster of connector {name} cannot be reached: {error}") from error
    for way in found_ways:
        try:
            with TransactionProber(way.connection) as prober:
                found = prober.transactions(ids, limit)
        except FencingError as error:
            troubles.append(f"with {way.whose}: {error}")
            continue
        now_ms = int(time.time() * 1000)
        return [
            {
                "id": each.transactional_id,
                "task": n,
                "state": each.state,
                "open": each.open,
                "producer_id": each.producer_id,
                "epoch": each.epoch,
                "timeout_ms": each.timeout_ms,
                "started_ms": each.started_ms,
                "age_ms": max(0, now_ms - each.started_ms) if each.open and each.started_ms > 0 else None,
                "partitions": [{"topic": topic, "partition": partition} for topic, partition in each.partitions],
            }
            for n, each in enumerate(found)
        ]
    raise Refusal(500, f"The transactions of connector {name} cannot be described {'; '.join(troubles)}")


def ways_of(connector: ConnectorState, worker: WorkerConfig) -> list[Way]:
    """To where the connector's tasks write: its count record says it, else its configuration."""
    known = connector.count is not None and connector.count.generation is not None
    target = connector.count.target if connector.count is not None and known else None
    return ways(target, connector.config, worker.connection("ringfence-fence"), worker.settings)


def fence_id(
    state: ClusterState, name: ConnectorName, transactional_id: str, worker: WorkerConfig
) -> list[dict[str, object]]:
    """Fence one id of the connector: an open transaction is aborted. A live task is placed anew (invariant 5).

    Only ids that a task of this connector has: others are somebody else's. Raises `Refusal`.
    """
    if name not in state:
        raise Refusal(404, f"Connector {name} not found")
    prefix = f"{worker.group_id}-{name}-"
    number = transactional_id.removeprefix(prefix)
    if not (
        transactional_id.startswith(prefix) and number.isascii() and number.isdigit() and str(int(number)) == number
    ):
        raise Refusal(400, f"{transactional_id} is no id of connector {name}: those are {prefix}0, {prefix}1 and so on")
    try:
        fenced = fence([transactional_id], ways_of(state.connector(name), worker))
    except FencingError as error:
        raise Refusal(500, f"{transactional_id} could not be fenced: {error}. Send the request again") from error
    return [
        {"id": one.transactional_id, "producer_id": one.producer_id, "epoch": one.epoch} for one in fenced.producers
    ]
