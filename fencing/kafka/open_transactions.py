"""Describes open transactions, finds those that hang (KIP-664), and ends them.

A transaction hangs if it is open on a partition, but unknown to its coordinator. Readers of committed records wait at
such a transaction forever. Fencing its id does not end it, since the coordinator has nothing to abort. Only a marker
written directly to the partition ends it.

To end one, a principal needs Alter or ClusterAction on the Cluster. `may_write_markers` sends a marker for an unused
producer id and a missing topic: the broker checks the permission first.

`TransactionEnder` ends transactions that other processes have written. The coordinator identifies a transaction by its
id, producer id and epoch, for any client. EndTxn may be repeated: until the id is
initialised again, the coordinator answers a repeated commit with the same epoch in the same way as the first.
"""

import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka import TopicPartition
from kafka.errors import BrokerResponseError, IncompatibleBrokerVersion, KafkaError, for_code
from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import EndTxnRequest
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from ringfence.fencing.clock import Deadline, epoch_ms
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.kafka_python_client import AbortTransactionSpec
from ringfence.fencing.kafka.permission_probes import MOVING, NOBODYS_PRODUCER, Permission, Prober, coordinator_request
from ringfence.fencing.kafka.topic_offsets import Ends

_UNKNOWN_ID: Final = 105
_OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id as its coordinator knows it. state: Kafka's name, "" for an unknown id; started_ms: the start
    of the open transaction, -1 for none; partitions: the (topic, partition) that it has written to.
    """

    transactional_id: str
    state: str = ""
    producer_id: int = -1
    epoch: int = -1
    timeout_ms: int = -1
    started_ms: int = -1
    partitions: Sequence[tuple[str, int]] = ()

    @property
    def open(self) -> bool:
        """Whether a transaction is open, or is ending."""
        return self.state in _OPEN


def _parse(description: Any) -> Transaction:
    return Transaction(
        description.transactional_id,
        description.transaction_state,
        description.producer_id,
        description.producer_epoch,
        description.transaction_timeout_ms,
        description.transaction_start_time_ms,
        tuple(sorted((topic.topic, partition) for topic in description.topics for partition in topic.partitions)),
    )


class TransactionProber(Prober):
    """A prober with one principal, which needs Describe on the ids."""

    def transactions(self, ids: Sequence[str], deadline: Deadline) -> list[Transaction]:
        """Describe these ids, in order. Raises `Fatal` if one may not be described, `Retriable` without an answer."""
        transactions: dict[str, Transaction] = {}
        left = list(dict.fromkeys(ids))
        while left:
            coordinators = self._run(self._all({each: coordinator_request(each) for each in left}))
            codes = {each: answer.error_code if answer else 15 for each, answer in coordinators.items()}
            nodes = {each: answer.node_id for each, answer in coordinators.items() if answer and not codes[each]}
            requests = {each: DescribeTransactionsRequest(transactional_ids=[each]) for each in nodes}
            for each, answer in self._run(self._all(requests, nodes)).items():
                if answer is None:
                    raise Fatal("The brokers cannot describe transactions: that takes Kafka 3.0 or newer")
                for description in answer.transaction_states:
                    codes[each] = description.error_code
                    if description.error_code == 0:
                        transactions[each] = _parse(description)
                    elif description.error_code == _UNKNOWN_ID:
                        transactions[each] = Transaction(each)
            left = [each for each in left if each not in transactions]
            for each in left:
                _check(each, codes[each])
            if left and deadline.expired:
                raise Retriable(f"The coordinator of {left[0]} does not answer. Ask again")
            if left:
                time.sleep(deadline.slice(0.1))  # on a new cluster, the coordinators' topic is still being created
        return [transactions[each] for each in ids]


def _check(id: str, code: int) -> None:
    """Raise `Fatal` for an error that a repeated request would get again."""
    if code not in MOVING:
        name = for_code(code).__name__
        raise Fatal(f"Describing {id}: {name}. Grant the admin client Describe on that TransactionalId", name)


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
    return max(0, epoch_ms() - one.last_ms)


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


@dataclass(frozen=True, slots=True, order=True)
class OpenTransaction:
    """A transaction that is flushed, but has not ended: any client with Write on the id can end it."""

    transactional_id: str
    producer_id: int
    epoch: int


_AWAY: Final = 15
_NOT_YET: Final = frozenset({14, _AWAY, 16, 51})  # loading, unavailable, moved; markers are not written yet
_END_VERSION: Final = 3
"""Newer ones are for producers whose epoch changes with each transaction (KIP-890). Those of a transaction that is
handed over do without it: its identity must not change before it has ended.
"""
_OVER: Final = frozenset({47, 48, 49, 90})  # the id has another epoch, state or producer now


class TransactionEnder(TransactionProber):
    """Ends them with one principal, which needs Write on the ids. Use it as a context manager."""

    def commit(self, transactions: Sequence[OpenTransaction], deadline: Deadline) -> set[str]:
        """Commit all of them. Return the ids whose transaction could no longer be committed.

        Such a transaction has timed out or was fenced, or it was committed before and the id was used again: its
        records show which. Raises `Retriable` if a coordinator does not answer in time: call it again.
        """
        left = {each.transactional_id: each for each in transactions}
        over: set[str] = set()
        while left:
            for name, code in self._end(list(left.values()), deadline).items():
                if code == 0 or code in _OVER:
                    del left[name]
                    over |= {name} if code else set()
                elif code not in _NOT_YET:
                    kind = for_code(code).__name__
                    raise Fatal(f"Committing {name}: {kind}. Grant Write on that TransactionalId, then restart", kind)
            if left and deadline.expired:
                raise Retriable(f"The coordinator of {next(iter(left))} does not end its transaction yet")
            if left:
                time.sleep(deadline.slice(0.02))
        return over

    def _end(self, transactions: Sequence[OpenTransaction], deadline: Deadline) -> dict[str, int]:
        """Return an error code for each; 15 if no coordinator answers."""
        by_id = {each.transactional_id: each for each in transactions}
        try:
            coordinators = self._run(self._all({name: coordinator_request(name) for name in by_id}))
            nodes = {name: answer.node_id for name, answer in coordinators.items() if answer and not answer.error_code}
            answers = self._run(self._all({name: _commit_request(by_id[name]) for name in nodes}, nodes))
        except Retriable:
            if deadline.expired:
                raise
            return dict.fromkeys(by_id, _AWAY)
        codes = {name: answer.error_code if answer else _AWAY for name, answer in coordinators.items()}
        return codes | {name: answer.error_code for name, answer in answers.items() if answer is not None}

    def open_ids(self) -> list[str]:
        """Return every transactional id with an open transaction that this principal may describe."""
        try:
            transactions = self._admin.list_transactions(state_filters=["Ongoing"])
        except KafkaError as error:
            raise self._trouble(error) from error
        return sorted(each.transactional_id for rows in transactions.values() for each in rows)


def _commit_request(transaction: OpenTransaction) -> EndTxnRequest:
    """Return the request that commits a transaction."""
    return EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=True,
        max_version=_END_VERSION,
    )
