"""Requests the offsets of a topic's partitions: the first, the last stable one, the end, or those at a time.

AdminClient.list_offsets can crash the process. librdkafka 2.16.0 looks for the leaders of the partitions on the
caller's thread. If it does not know one, and a response to another request brings topics' metadata at that moment, its
own thread finishes the same request and frees it: the caller then reads a null pointer (SIGSEGV in
`rd_kafka_topic_partition_list_query_leaders_async`). So this makes the client learn all leaders first, and requests
only partitions that have one.

And if one of several brokers does not answer, librdkafka returns OFFSET_INVALID (-1001) for its partitions, without an
error. Whoever reads up to an end would then believe that there is nothing to read. Here that is an error.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.kafka.client_pool import admin_client, asking, retire
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors

_TRUSTED_SECONDS: Final = 120.0
"""How long a client's metadata is considered present: librdkafka keeps it for 900 s, and renews it every 300 s."""


@dataclass(frozen=True, slots=True)
class _Leaders:
    """The partitions of all topics, and whether each has an available leader; read at a monotonic time."""

    has_leader: Mapping[tuple[str, int], bool]
    at: float


_cache: "WeakKeyDictionary[AdminClient, _Leaders]" = WeakKeyDictionary()
_turn = threading.Lock()


def list_offsets(
    client: AdminClient,
    specs: Mapping[TopicPartition, OffsetSpec],
    level: IsolationLevel,
    seconds: float,
    leaders_seconds: float | None = None,
) -> dict[TopicPartition, "Future[Any]"]:
    """Return the future response for each partition. It waits only for the leaders, and only if they are not known.

    seconds: the timeout of the request. leaders_seconds: that for the leaders; by default the same. A partition that
    does not exist, or has no leader, gets an error at once. Raises `KafkaException` if no broker reports the leaders in
    time.
    """
    places = [(tp.topic, tp.partition) for tp in specs]
    leaders = _leaders(client, places, seconds if leaders_seconds is None else leaders_seconds)
    ready = {tp: spec for tp, spec in specs.items() if leaders.get((tp.topic, tp.partition))}
    answers: dict[TopicPartition, Future[Any]] = {}
    if ready:
        for tp, answer in client.list_offsets(ready, isolation_level=level, request_timeout=seconds).items():
            answers[tp] = Future()
            answers[tp].add_done_callback(partial(_doubt, ref(client)))
            answer.add_done_callback(partial(_pass_on, answers[tp]))
    # As in librdkafka: `_NOENT` is temporary, since not every broker may know a new topic yet.
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART if ready else KafkaError._NOENT
    reasons = _ask_reasons(client, {tp.topic for tp in specs} - {topic for topic, _ in leaders}, unknown, seconds)
    for tp in specs:
        if tp not in ready:
            there = (tp.topic, tp.partition) in leaders
            answers[tp] = reasons.get(tp.topic) or _refuse(KafkaError.LEADER_NOT_AVAILABLE if there else unknown)
    return answers


def _pass_on(checked: "Future[Any]", answer: "Future[Any]") -> None:
    if (error := answer.exception()) is not None:
        checked.set_exception(error)
    elif answer.result().offset == OFFSET_INVALID:
        checked.set_exception(KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, "its leader does not answer")))
    else:
        checked.set_result(answer.result())


def _doubt(client: "ref[AdminClient]", answer: "Future[Any]") -> None:
    """Forget the leaders after an error: one may have moved, or a topic may be gone."""
    if answer.exception() is not None and (admin := client()) is not None:
        with _turn:
            _cache.pop(admin, None)


def _refuse(code: int) -> "Future[Any]":
    refusal: Future[Any] = Future()
    refusal.set_exception(KafkaException(KafkaError(code)))
    return refusal


def _ask_reasons(client: AdminClient, topics: set[str], unknown: int, seconds: float) -> dict[str, "Future[Any]"]:
    """Ask why these topics are not listed: they do not exist, or this principal may not see them."""
    futures = client.describe_topics(TopicCollection(sorted(topics)), request_timeout=seconds) if topics else {}
    reasons: dict[str, Future[Any]] = {}
    for topic, future in futures.items():
        reasons[topic] = Future()
        future.add_done_callback(partial(_tell, reasons[topic], unknown))
    return reasons


def _tell(reason: "Future[Any]", unknown: int, description: "Future[Any]") -> None:
    error = description.exception()
    has_another = isinstance(error, KafkaException) and error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART
    reason.set_exception(error if error and has_another else KafkaException(KafkaError(unknown)))


def _leaders(client: AdminClient, places: list[tuple[str, int]], seconds: float) -> Mapping[tuple[str, int], bool]:
    with _turn:
        leaders = _cache.get(client)
    at = time.monotonic()
    if leaders is not None and at - leaders.at < _TRUSTED_SECONDS and all(map(leaders.has_leader.get, places)):
        return leaders.has_leader
    metadata = client.list_topics(timeout=seconds)
    has_leader = {
        (name, number): one.leader in metadata.brokers
        for name, topic in metadata.topics.items()
        for number, one in topic.partitions.items()
    }
    with _turn:
        _cache[client] = _Leaders(has_leader, at)
    return has_leader


_ANSWER_SECONDS = 5.0
_LEADERS_SECONDS = 1.0


class StableEnds:
    """One request, and later its result or its error."""

    def __init__(self, connection: Connection, partitions: Mapping[str, Sequence[int]]) -> None:
        """partitions: of each topic. Raises `FencingError` if no client can be created."""
        self._connection = connection
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        specs = {TopicPartition(topic, one): spec for topic, ones in partitions.items() for one in ones}
        with kafka_errors("asking for stable offsets"):
            self._client: AdminClient = admin_client(connection)  # kept, since its responses are lost with it
            self._answers: Mapping[TopicPartition, Future[Any]] = list_offsets(
                self._client, specs, IsolationLevel.READ_COMMITTED, _ANSWER_SECONDS, _LEADERS_SECONDS
            )

    def is_answered(self) -> bool:
        """Return whether `result` returns at once."""
        return all(future.done() for future in self._answers.values())

    def result(self) -> dict[tuple[str, int], int]:
        """Return the last stable offset of each (topic, partition). Raises `FencingError` without all responses."""
        try:
            return self._result()
        except Retriable:
            retire(self._connection, self._client)
            raise

    def _result(self) -> dict[tuple[str, int], int]:
        with kafka_errors("asking for stable offsets"):
            return {(tp.topic, tp.partition): future.result().offset for tp, future in self._answers.items()}


_Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ends:
    """stable: the last stable offset, the end for read_committed; end: the end for read_uncommitted."""

    stable: int
    end: int


def ends_of(connection: Connection, places: Collection[_Where], deadline: Deadline) -> dict[_Where, Ends]:
    """Return the ends of those partitions that exist."""
    with asking(connection, "asking for the ends of partitions") as client:
        every = client.list_topics(timeout=max(0.5, deadline.slice(5.0))).topics
        there = [
            TopicPartition(topic, number)
            for topic, number in sorted(places)
            if topic in every and every[topic].error is None and number in every[topic].partitions
        ]
        if not there:
            return {}
        seconds = max(0.5, deadline.slice(5.0))
        spec: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        latest = dict.fromkeys(there, spec)
        # The stable offsets first: an end that is requested later is not smaller.
        stable = list_offsets(client, latest, IsolationLevel.READ_COMMITTED, seconds)
        stable_offsets = {place: future.exception() or future.result().offset for place, future in stable.items()}
        end = list_offsets(client, latest, IsolationLevel.READ_UNCOMMITTED, seconds)
        ends = {}
        for place, future in end.items():
            try:
                with kafka_errors(f"asking for the end of {place.topic}-{place.partition}"):
                    offset = stable_offsets[place]
                    if isinstance(offset, BaseException):
                        raise offset
                    ends[(place.topic, place.partition)] = Ends(offset, future.result().offset)
            except FencingError as error:
                if error.code != "UNKNOWN_TOPIC_OR_PART":
                    raise
        return ends


class OffsetKind(Enum):
    """A place in a partition: its first offset, the last stable one, and the read_uncommitted end."""

    FIRST = "first"
    STABLE = "stable"
    END = "end"


def offsets_at(
    connection: Connection, topic: str, partitions: Sequence[int], place: OffsetKind, deadline: Deadline
) -> dict[int, int]:
    """Return the offset of this place in each partition."""
    spec = OffsetSpec.earliest() if place is OffsetKind.FIRST else OffsetSpec.latest()  # type: ignore[no-untyped-call]
    level = IsolationLevel.READ_COMMITTED if place is OffsetKind.STABLE else IsolationLevel.READ_UNCOMMITTED
    specs = {TopicPartition(topic, partition): spec for partition in partitions}
    while True:
        try:
            with asking(connection, f"asking for the {place.value} offset of topic {topic}") as client:
                futures = list_offsets(client, specs, level, max(0.5, deadline.slice(5.0)))
                return {tp.partition: future.result().offset for tp, future in futures.items()}
        except Retriable:
            if deadline.expired:
                raise
            admin_client(connection).poll(deadline.slice(0.05))


def offsets_since(
    connection: Connection, topic: str, partitions: Sequence[int], time_ms: int, deadline: Deadline
) -> dict[int, int]:
    """Return the offset of each partition's first record at or after a time (ms since the epoch); -1 for none."""
    specs = {TopicPartition(topic, partition): OffsetSpec.for_timestamp(time_ms) for partition in partitions}
    with asking(connection, f"asking for the offsets of topic {topic} at a time") as client:
        futures = list_offsets(client, specs, IsolationLevel.READ_UNCOMMITTED, max(0.5, deadline.slice(5.0)))
        return {tp.partition: future.result().offset for tp, future in futures.items()}


def end_offsets(connection: Connection, topic: str, partitions: Sequence[int], deadline: Deadline) -> dict[int, int]:
    """Return the read_uncommitted end offset of each partition (invariant 6)."""
    return offsets_at(connection, topic, partitions, OffsetKind.END, deadline)
