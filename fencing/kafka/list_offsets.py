"""Requests offsets with AdminClient.list_offsets, in a way that cannot crash the process.

librdkafka 2.16.0 looks for the leaders of the partitions on the caller's thread. If it does not know one, and a
response to another request brings topics' metadata at that moment, its own thread finishes the same request and frees
it: the caller then reads a null pointer (SIGSEGV in `rd_kafka_topic_partition_list_query_leaders_async`). So this makes
the client learn all leaders first, and requests only partitions that have one.

And if one of several brokers does not answer, librdkafka returns OFFSET_INVALID (-1001) for its partitions, without an
error. Whoever reads up to an end would then believe that there is nothing to read. Here that is an error.
"""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
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
