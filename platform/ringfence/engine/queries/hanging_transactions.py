"""Describes and fences a connector's transactional ids, finds hanging transactions on its topics, and ends one."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.connectors.sdk.kafka_settings.java_names import servers
from ringfence.engine.leader.commands import EndHanging
from ringfence.fencing.clock import Deadline, epoch_ms
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import ConnectorName, TaskId, task_transactional_id
from ringfence.fencing.kafka.open_transactions import Hanging, HangingProber, Transaction, TransactionProber, age_ms
from ringfence.fencing.leader.fence_generation import fence
from ringfence.fencing.leader.fence_targets import AdminAccess, list_admin_access
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
            return [{**_serialize_id(access, n, each), "transaction_version": version} for n, each in rows]

    purpose = f"The transactions of connector {name} cannot be described"
    return [row for accesses in list_clusters(name, configs, worker) for row in try_each_access(accesses, ask, purpose)]


def _serialize_id(access: AdminAccess, task: int, one: Transaction) -> dict[str, object]:
    now_ms = epoch_ms()
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


SLACK_MS: Final = 10_000
_SECONDS: Final = 60.0


def topics_of(topics: Iterable[str], config: Settings, worker: WorkerConfig) -> set[str]:
    """Return these topics and the offsets topic of the tasks, which is part of each transaction."""
    return {*topics, config.get(OFFSETS_STORAGE_TOPIC, "").strip() or worker.offsets_topic}


def find(
    name: str, tasks: int, configs: Collection[Settings], topics: Iterable[str], worker: WorkerConfig, limit: Deadline
) -> list[dict[str, object]]:
    """Return those on the connector's topics, in each cluster of these configurations. Raises `Refusal`."""
    all_topics = set(topics).union(*(topics_of((), config, worker) for config in configs))

    def ask(access: AdminAccess) -> list[dict[str, object]]:
        with HangingProber(access.connection) as prober:
            transactions = _hanging(prober, name, tasks, all_topics, worker, limit)
            longest = prober.longest_ms() if transactions else 0
            return [_serialize(access, one, longest) for one in transactions]

    purpose = f"The hanging transactions of connector {name} cannot be found"
    return [row for accesses in list_clusters(name, configs, worker) for row in try_each_access(accesses, ask, purpose)]


def _hanging(
    prober: HangingProber, name: str, tasks: int, topics: Collection[str], worker: WorkerConfig, limit: Deadline
) -> list[Hanging]:
    ours = prober.transactions(ids_of(name, tasks, worker), limit)
    return prober.hanging(topics, ours, limit)


def _why_not(one: Hanging, longest_ms: int) -> str:
    """Return why it may not be ended yet; "" if it may.

    A principal that may not describe an id cannot see that a coordinator knows its transaction. So transactions of
    unknown producers may only be ended after the time in which a coordinator would have ended them.
    """
    if one.transactional_id or age_ms(one) > longest_ms + SLACK_MS:
        return ""
    return (
        f"No coordinator reports the owner of producer {one.producer_id}, and it wrote {age_ms(one) // 1000} s ago: a "
        f"live transaction may be open for {longest_ms // 1000} s (transaction.max.timeout.ms). Wait that long, or "
        "use credentials that may Describe all TransactionalIds"
    )


def _serialize(access: AdminAccess, one: Hanging, longest_ms: int) -> dict[str, object]:
    return {
        "cluster": access.connection.bootstrap,
        "topic": one.topic,
        "partition": one.partition,
        "producer_id": one.producer_id,
        "epoch": one.epoch,
        "start_offset": one.start_offset,
        "age_ms": age_ms(one),
        "transactional_id": one.transactional_id,
        "why_not": _why_not(one, longest_ms),
    }


def end(state: ClusterState, request: EndHanging, worker: WorkerConfig) -> list[dict[str, object]]:
    """End a producer's hanging transaction on one partition, after checking again that it hangs. Raises `Refusal`."""
    name = ConnectorName(request.connector)
    connector, limit = state.connector(name), Deadline.after(_SECONDS)
    if name not in state:
        raise Refusal(404, f"Connector {name} not found")
    configs = [connector.config or {}, *request.earlier]
    topic, target = request.topic, (request.topic, request.partition, request.producer_id)
    if topic not in set(request.topics).union(*(topics_of((), config, worker) for config in configs)):
        raise Refusal(400, f"Connector {name} has not written to topic {topic}: GET …/topics lists its topics")

    def ask(access: AdminAccess) -> list[dict[str, object]]:
        with HangingProber(access.connection) as prober:
            transactions = _hanging(prober, name, request.tasks, [topic], worker, limit)
            matches = [one for one in transactions if (one.topic, one.partition, one.producer_id) == target]
            longest = prober.longest_ms() if matches else 0
            for one in matches:
                if why := _why_not(one, longest):
                    raise Refusal(409, why)
                prober.abort(one)
            return [_serialize(access, one, longest) for one in matches]

    purpose = f"What hangs on {topic}-{target[1]} could not be ended"
    rows = [row for accesses in list_clusters(name, configs, worker) for row in try_each_access(accesses, ask, purpose)]
    if not rows:
        text = "no hanging transaction of that producer: list the hanging transactions again"
        raise Refusal(404, f"On {topic}-{target[1]} there is {text}")
    return rows
