"""Requests of a transaction that librdkafka cannot be asked for: add partitions, produce whole batches, abort."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from kafka.errors import KafkaError, SaslAuthenticationFailedError
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, ProduceRequest

from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.coordinator_retries import MOVING
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from ringfence.fencing.kafka.open_transaction import OpenTransaction

Place = tuple[str, int]
"""Topic and partition."""

# Newer versions of the first two are for brokers, or for producers whose epoch changes with each transaction (KIP-890),
# which librdkafka does not expect. Those of the last two identify topics by id.
_ADD_VERSION: Final = 3
_END_VERSION: Final = 3
_PRODUCE_VERSION: Final = 9
_METADATA_VERSION: Final = 9
_FIND_VERSION: Final = 3
_NOT_ATTEMPTED: Final = 55
_REQUEST_MS: Final = 30_000
_BOOTSTRAP_MS: Final = 30_000
_SEND_BUFFER_BYTES: Final = 1024 * 1024
"""Room for a batch, which is then sent at once."""


def coordinator_request(transactional_id: str) -> FindCoordinatorRequest:
    """Return the request for the id's coordinator."""
    return FindCoordinatorRequest(
        key=transactional_id, key_type=CoordinatorType.TRANSACTION.value, max_version=_FIND_VERSION, min_version=1
    )


def end_request(transaction: OpenTransaction, *, committed: bool) -> EndTxnRequest:
    """Return the request that commits or aborts a transaction."""
    return EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=committed,
        max_version=_END_VERSION,
    )


class TransactionRequests:
    """Sends them for one producer. Responses are Kafka's error codes, or None without a response."""

    def __init__(self, connection: Connection, transaction: OpenTransaction, timeout_ms: int) -> None:
        """timeout_ms: of the transaction. Raises `Retriable` if no broker answers, `Fatal` for unusable settings."""
        self._transaction = transaction
        self._where = connection.bootstrap
        self._request_ms = min(timeout_ms, int(connection.settings.get("socket.timeout.ms", _REQUEST_MS)))
        try:
            self._client = PythonClient(
                **connection.kafka_python(),
                request_timeout_ms=self._request_ms,
                bootstrap_timeout_ms=min(timeout_ms, _BOOTSTRAP_MS),
                send_buffer_bytes=_SEND_BUFFER_BYTES,
            )
        except KafkaError as error:
            raise Retriable(f"No broker of {self._where} answers: {type(error).__name__}") from error
        except (OSError, ValueError) as error:
            raise Fatal(f"The settings for {self._where} cannot be used: {type(error).__name__}") from error
        self._coordinator: int | None = None

    def close(self) -> None:
        self._client.close()

    def find_leaders(self, topic: str) -> tuple[int | None, list[int]]:
        """Return a code, and the leader of each partition, -1 for none. A topic is created if brokers allow it."""
        answer = self._send(
            MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
                allow_auto_topic_creation=True,
                max_version=_METADATA_VERSION,
            ),
            None,
        )
        if answer is None:
            return None, []
        (description,) = answer.topics
        leaders = {part.partition_index: int(part.leader_id) for part in description.partitions}
        return int(description.error_code), [leaders.get(number, -1) for number in range(len(leaders))]

    def add_partitions(self, places: Sequence[Place]) -> int | None:
        """Add partitions to the transaction, which begins with the first one."""
        return self._ask_coordinator(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._transaction.transactional_id,
                v3_and_below_producer_id=self._transaction.producer_id,
                v3_and_below_producer_epoch=self._transaction.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                    for topic, numbers in _by_topic(places).items()
                ],
                max_version=_ADD_VERSION,
            ),
            lambda answer: [
                int(part.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            ],
        )

    def abort(self) -> int | None:
        """Abort the open transaction."""
        return self._ask_coordinator(
            end_request(self._transaction, committed=False),
            lambda answer: [int(answer.error_code)],
        )

    def produce(self, batches: Mapping[int, Mapping[Place, bytes]]) -> dict[Place, int | None]:
        """Send a record batch for each partition to its leader, to all leaders at once."""
        answers = self._send_all({node: self._produce_request(parts) for node, parts in batches.items()})
        codes: dict[Place, int | None] = {place: None for parts in batches.values() for place in parts}
        for answer in filter(None, answers.values()):
            for topic in answer.responses:
                for part in topic.partition_responses:
                    codes[topic.name, part.index] = int(part.error_code)
        return codes

    def _produce_request(self, batches: Mapping[Place, bytes]) -> Any:
        part = ProduceRequest.TopicProduceData.PartitionProduceData
        return ProduceRequest(
            transactional_id=self._transaction.transactional_id,
            acks=-1,
            timeout_ms=self._request_ms,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=topic,
                    partition_data=[part(index=number, records=batches[topic, number]) for number in numbers],
                )
                for topic, numbers in _by_topic(batches).items()
            ],
            max_version=_PRODUCE_VERSION,
        )

    def _ask_coordinator(self, request: Any, codes_in: Callable[[Any], list[int]]) -> int | None:
        """Return the first error code of the response, 0 if there is none."""
        if self._coordinator is None:
            coordinator = self._send(coordinator_request(self._transaction.transactional_id), None)
            if coordinator is None or coordinator.error_code:
                return None if coordinator is None else int(coordinator.error_code)
            self._coordinator = int(coordinator.node_id)
        answer = self._send(request, self._coordinator)
        codes = [] if answer is None else [code for code in codes_in(answer) if code]
        if answer is None or MOVING.intersection(codes):
            self._coordinator = None
        if answer is None:
            return None
        # If one partition is refused, the others are not attempted.
        return next((code for code in codes if code != _NOT_ATTEMPTED), codes[0] if codes else 0)

    def _send(self, request: Any, node: int | None) -> Any:
        return self._send_all({node: request})[node]

    def _send_all(self, requests: Mapping[Any, Any]) -> dict[Any, Any]:
        """Send each request to its node, None for any. Return the responses; None for a node that gave none."""

        async def call() -> dict[Any, Any]:
            responses = {node: self._client.send(request, node_id=node) for node, request in requests.items()}
            return {node: await _answer_of(response) for node, response in responses.items()}

        try:
            return self._client.run(call)
        except SaslAuthenticationFailedError as error:
            raise Fatal(f"The login at {self._where} was refused", "SASL_AUTHENTICATION_FAILED") from error
        except KafkaError:
            return dict.fromkeys(requests)


async def _answer_of(response: Awaitable[Any]) -> Any:
    try:
        return await response
    except SaslAuthenticationFailedError:
        raise
    except KafkaError:
        return None


def _by_topic(places: Mapping[Place, object] | Sequence[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in places:
        topics.setdefault(topic, []).append(number)
    return topics
