"""Finds and ends hanging transactions (KIP-664): open on a partition, but unknown to their coordinator.

Readers of committed records wait at such a transaction forever. Fencing its id does not end it, since the coordinator
has nothing to abort. Only a marker written directly to the partition ends it.

To end one, a principal needs Alter or ClusterAction on the Cluster. `may_write_markers` sends a marker for an unused
producer id and a missing topic: the broker checks the permission first.
"""

import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka import TopicPartition
from kafka.errors import BrokerResponseError, IncompatibleBrokerVersion, KafkaError
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.kafka_python_client import AbortTransactionSpec
from ringfence.fencing.kafka.permission_probes import NOBODYS_PRODUCER, Permission, Prober
from ringfence.fencing.kafka.topic_offsets import Ends
from ringfence.fencing.kafka.transaction_descriptions import Transaction, TransactionProber

_CLUSTER_DENIED: Final = 31
_UNKNOWN_TOPIC: Final = 3


def may_write_markers(prober: Prober) -> Permission:
    """Return the permission to write markers, as far as a probe shows it. Raises the prober's errors."""
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        markers=[
            marker(
                producer_id=NOBODYS_PRODUCER,
                producer_epoch=0,
                transaction_result=False,
                topics=[
                    marker.WritableTxnMarkerTopic(
                        name=f"ringfence-no-such-topic-{secrets.token_hex(8)}", partition_indexes=[0]
                    )
                ],
                coordinator_epoch=0,
            )
        ]
    )
    answer = prober._run(prober._all({"": request}))[""]
    codes = {
        partition.error_code
        for one in (answer.markers if answer else ())
        for topic in one.topics
        for partition in topic.partitions
    }
    if _CLUSTER_DENIED in codes:
        return Permission.NO
    return Permission.YES if codes == {_UNKNOWN_TOPIC} else Permission.UNKNOWN


_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"
_DEFAULT_MAX_TIMEOUT_MS: Final = 900_000
_DENIED: Final = frozenset({"ClusterAuthorizationFailedError", "TopicAuthorizationFailedError"})

GROUP_OFFSETS: Final = "__consumer_offsets"
"""Kafka's topic for the offsets of consumer groups, which transactions also write (KIP-98)."""

Key = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class Hanging:
    """An open transaction on one partition, from `start_offset` on. last_ms: the time of its last records.

    transactional_id: the id of its producer, "" if no coordinator knows it any more.
    """

    topic: str
    partition: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    start_offset: int
    last_ms: int
    transactional_id: str = ""

    @property
    def key(self) -> Key:
        return self.topic, self.partition, self.producer_id, self.start_offset

    @property
    def message(self) -> str:
        """The description for messages."""
        return (
            f"{self.topic}-{self.partition}, producer id {self.producer_id}, epoch {self.epoch}, open from offset "
            f"{self.start_offset} on"
        )


class HangingProber(TransactionProber):
    """A prober with one principal, with Read on the topics, and, to abort, Alter or ClusterAction on the Cluster."""

    def hanging(self, topics: Collection[str], ours: Iterable[Transaction], deadline: Deadline) -> list[Hanging]:
        """Return the hanging transactions on these topics. ours: ids whose producers are known for certain.

        It checks twice: a transaction that its coordinator has just ended stays open until its markers are written. A
        topic that does not exist has none.
        """
        first = self._open(topics)
        if not first:
            return []
        transactions = self._describe_known({each.producer_id for each in first.values()}, ours, deadline)
        owners = {each.producer_id: each.transactional_id for each in transactions}
        open_places = {
            (each.producer_id, topic, partition)
            for each in transactions
            if each.open
            for topic, partition in each.partitions
        }
        suspects = [
            each for each in first.values() if (each.producer_id, each.topic, each.partition) not in open_places
        ]
        still = self._open({each.topic for each in suspects}) if suspects else {}
        return [
            replace(still[each.key], transactional_id=owners.get(each.producer_id, ""))
            for each in suspects
            if each.key in still
        ]

    def leftovers(self, topics: Collection[str], epochs: Mapping[int, int]) -> list[Hanging]:
        """Return the open transactions of these producer ids with older epochs than InitProducerId has returned.

        No coordinator needs to be asked: before that response, it has ended every transaction of the id that it knows.
        """
        return [each for each in self._open(topics).values() if each.epoch < epochs.get(each.producer_id, -1)]

    def owners(self, producers: Collection[int], deadline: Deadline) -> dict[int, Transaction]:
        """Return the ids of these producers with their current state, if a coordinator still knows them."""
        return {each.producer_id: each for each in self._describe_known(producers, (), deadline)}

    def open_on(self, topics: Collection[str]) -> list[Hanging]:
        """Return every open transaction on these topics, hanging or not."""
        return list(self._open(topics).values())

    def open_in(self, places: Collection[tuple[str, int]]) -> list[Hanging]:
        """Return every open transaction on these partitions, which must exist."""
        return list(self._open_in([TopicPartition(topic, number) for topic, number in sorted(places)]).values())

    def longest_ms(self) -> int:
        """Return how long a coordinator lets a transaction be open."""
        setting = self.broker_setting(_MAX_TIMEOUT)
        return int(setting) if setting is not None and setting.isdigit() else _DEFAULT_MAX_TIMEOUT_MS

    def abort(self, one: Hanging) -> None:
        """Write the marker that aborts a transaction. Idempotent. Raises `Fatal` with the remedy, or `Retriable`."""
        spec = AbortTransactionSpec(
            TopicPartition(one.topic, one.partition), one.producer_id, one.epoch, max(0, one.coordinator_epoch)
        )
        try:
            self._admin.abort_transaction(spec)
        except KafkaError as error:
            raise self._error(error, f"Aborting a hanging transaction on {one.message}") from error

    def _open(self, topics: Collection[str]) -> dict[Key, Hanging]:
        return self._open_in(self._partitions_of(topics))

    def _open_in(self, places: Collection[TopicPartition]) -> dict[Key, Hanging]:
        try:
            states: Mapping[TopicPartition, Any] = self._admin.describe_producers(places)
        except KafkaError as error:
            topics = sorted({each.topic for each in places})
            raise self._error(error, "Describing the producers of " + ", ".join(topics)) from error
        transactions = [
            Hanging(
                where.topic,
                where.partition,
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.current_transaction_start_offset,
                each.last_timestamp,
            )
            for where, state in states.items()
            for each in state.active_producers
            if each.current_transaction_start_offset >= 0
        ]
        return {
            each.key: each
            for each in sorted(transactions, key=lambda each: (each.topic, each.partition, each.start_offset))
        }

    def _partitions_of(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of those topics that exist. It does not create topics."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)],
            allow_auto_topic_creation=False,
        )
        answer = self._run(self._all({"": request}))[""]
        return [
            TopicPartition(topic.name, partition.partition_index)
            for topic in answer.topics
            if topic.error_code == 0
            for partition in topic.partitions
        ]

    def _describe_known(
        self, producers: Collection[int], ours: Iterable[Transaction], deadline: Deadline
    ) -> list[Transaction]:
        """Describe the ids of these producers by asking all coordinators; for an id in `ours`, use that description."""
        try:
            transactions = self._admin.list_transactions(producer_id_filters=sorted(producers))
        except KafkaError as error:
            raise self._error(error, "Listing transactions") from error
        ids = {each.transactional_id for rows in transactions.values() for each in rows}
        ids |= {each.transactional_id for each in ours if each.producer_id in producers}
        return self.transactions(sorted(ids), deadline)

    def _error(self, error: KafkaError, what: str) -> FencingError:
        name = type(error).__name__
        if name in _DENIED:
            remedy = (
                "Grant the connector's admin client Read on the topics, and Alter (older brokers: ClusterAction) on "
                "the Cluster"
            )
            return Fatal(f"{what}: {name}. {remedy}", name)
        if isinstance(error, IncompatibleBrokerVersion):
            return Fatal(f"{what}: that takes Kafka 2.8 or newer", name)
        if isinstance(error, BrokerResponseError) and not error.retriable:
            return Fatal(f"{what}: {name}", name)
        return Retriable(f"{what}: {name}. Ask again", name)


def age_ms(one: Hanging) -> int:
    """Return the time since its last records, by this machine's clock."""
    return max(0, int(time.time() * 1000) - one.last_ms)


_Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Holder:
    """The transaction that holds a last stable offset. transactional_id: "" if no coordinator knows the producer;
    since_ms: when it began, -1 if unknown.
    """

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str
    since_ms: int


def find_holders(prober: HangingProber, ends: Mapping[_Where, Ends], deadline: Deadline) -> dict[_Where, Holder]:
    """Return the open transaction that begins at the last stable offset, by partition.

    Partitions whose last stable offset is not held, or whose transaction has ended since, are left out.
    """
    stable_offsets = {place: each.stable for place, each in ends.items() if each.stable < each.end}
    first = _first_of(prober.open_in(stable_offsets)) if stable_offsets else {}
    first = {place: one for place, one in first.items() if one.start_offset <= stable_offsets[place]}
    owners = prober.owners({one.producer_id for one in first.values()}, deadline) if first else {}
    holders = {}
    for place, one in first.items():
        owner = owners.get(one.producer_id)
        name, since = (owner.transactional_id, owner.started_ms) if owner is not None else ("", -1)
        holders[place] = Holder(one.producer_id, one.epoch, one.start_offset, name, since)
    return holders


def _first_of(transactions: Iterable[Hanging]) -> dict[_Where, Hanging]:
    first: dict[_Where, Hanging] = {}
    for one in transactions:
        place = (one.topic, one.partition)
        if place not in first or one.start_offset < first[place].start_offset:
            first[place] = one
    return first
