"""Finds hanging transactions (KIP-664) on a connector's topics, and ends one for a user."""

from collections.abc import Collection, Iterable
from typing import Final

from ringfence.connectors.delivery_settings import OFFSETS_STORAGE_TOPIC
from ringfence.engine.queries.transactional_ids import Settings, ids_of, list_clusters, try_each_access
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.hanging_transactions import Hanging, HangingProber, age_ms
from ringfence.fencing.leader.fence_generation import AdminAccess
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.requests.commands import EndHanging
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

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
