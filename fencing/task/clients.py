"""The clients of a task, with the effective settings of worker and connector."""

from collections.abc import Mapping, Sequence

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.sdk import egress, worker_limits
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.fetching.partition_reader import PartitionReader
from ringfence.fencing.kafka.connection import (
    Connection,
    connection_of,
    find_acks_errors,
    is_other_cluster,
    producer_overrides,
)
from ringfence.fencing.kafka.plain_producers import IdempotentProducer
from ringfence.fencing.task.group_source import GroupSource
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.producer import Producer

_NO_LIMIT_MS = 2**31 - 1


def transactional_producer(spec: TaskSpec, timeout_ms: int) -> Producer:
    """Create the task's producer, not initialised yet. Raises `Invalid` for settings that cannot be used."""
    where = spec.connection, spec.worker_settings, spec.connector_config
    return connector_producer(*where, spec.transactional_id, timeout_ms)


def connector_producer(
    base: Connection,
    worker_settings: Mapping[str, str],
    connector_config: Mapping[str, str],
    transactional_id: str,
    timeout_ms: int,
) -> Producer:
    """Create a producer with a connector's settings, not initialised yet. Raises `Invalid`.

    On another cluster than the worker's, each broker's address has to be allowed, not only those configured.
    """
    for problem in find_acks_errors(worker_settings, connector_config).values():
        raise Invalid(problem)
    overrides = producer_overrides(base, worker_settings, connector_config, timeout_ms)
    foreign = is_other_cluster(base.bootstrap, worker_settings, connector_config)
    return Producer(
        connection_of(Role.PRODUCER, base, worker_settings, connector_config),
        transactional_id,
        transaction_timeout_ms=timeout_ms,
        overrides=overrides,
        look_up=_look_up_allowed if foreign else egress.look_up,
    )


def _look_up_allowed(host: str, port: int) -> list[str]:
    try:
        return egress.Policy(worker_limits.current().egress).addresses(host, port)
    except egress.EgressDenied as error:
        raise OSError(str(error)) from error


def batch_reader(settings: Mapping[str, str], isolation: str, most_bytes: int) -> PartitionReader:
    """Create a reader of another cluster, of which each broker's address has to be allowed. Raises `ConnectorError`.

    settings: librdkafka's names. most_bytes: of a batch that may be written as it is.
    """
    allowed = egress.Policy(worker_limits.current().egress)
    try:
        return PartitionReader(settings, isolation, most_bytes, allowed.addresses)
    except (OSError, ValueError, FencingError) as error:
        raise ConnectorError(f"The settings of the source cluster cannot be used: {error}") from error


def group_source(
    spec: TaskSpec, group: str, topics: Sequence[str], session_timeout_ms: int, first: Mapping[tuple[str, int], int]
) -> GroupSource:
    """Join a consumer group on the cluster that the task writes to. Raises `Invalid`, `FencingError`."""
    return GroupSource(
        reading_connection(spec),
        spec.transactional_id,
        group,
        topics,
        session_timeout_ms,
        lambda topic, partition: first.get((topic, partition)),
    )


def idempotent_producer(spec: TaskSpec) -> IdempotentProducer:
    """Create the task's producer without transactions. Raises `Invalid` for settings that cannot be used."""
    overrides = producer_overrides(spec.connection, spec.worker_settings, spec.connector_config, _NO_LIMIT_MS)
    there = connection_of(Role.PRODUCER, spec.connection, spec.worker_settings, spec.connector_config)
    return IdempotentProducer(there, overrides)


def admin_connection(spec: TaskSpec) -> Connection:
    """Return the connection with which the task creates topics. Raises `Invalid`."""
    return connection_of(Role.ADMIN, spec.connection, spec.worker_settings, spec.connector_config)


def fencing_connection(spec: TaskSpec) -> Connection:
    """Return the connection with which the task fences an earlier attempt. Raises `Invalid`."""
    return admin_connection(spec)


def reading_connection(spec: TaskSpec) -> Connection:
    """Return the connection with which the task reads its source offsets. Raises `Invalid`."""
    return connection_of(Role.CONSUMER, spec.connection, spec.worker_settings, spec.connector_config)
