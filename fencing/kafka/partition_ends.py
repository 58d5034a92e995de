"""Where partitions of many topics end, for both kinds of readers, and which open transactions stand between."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.admin import _asking
from ringfence.fencing.kafka.hanging import Hanging, HangingProber
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors

_Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Ends:
    """stable: the last stable offset, where readers of committed records wait; end: where the others are."""

    stable: int
    end: int


@dataclass(frozen=True, slots=True)
class Holder:
    """The transaction that holds a last stable offset. transactional_id: "" where no coordinator knows the producer.

    since_ms: when it began, -1 where nobody knows.
    """

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str
    since_ms: int


def ends_of(connection: Connection, places: Collection[_Where], deadline: Deadline) -> dict[_Where, Ends]:
    """Of those partitions that are there."""
    with _asking(connection, "asking for the ends of partitions") as client:
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
        # The stable ones first: an end that is asked for later is no smaller.
        stable = client.list_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=seconds)
        stable_offsets = {place: future.exception() or future.result().offset for place, future in stable.items()}
        end = client.list_offsets(latest, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=seconds)
        found = {}
        for place, future in end.items():
            try:
                with kafka_errors(f"asking for the end of {place.topic}-{place.partition}"):
                    offset = stable_offsets[place]
                    if isinstance(offset, BaseException):
                        raise offset
                    found[(place.topic, place.partition)] = Ends(offset, future.result().offset)
            except FencingError as error:
                if error.code != "UNKNOWN_TOPIC_OR_PART":
                    raise
        return found


def find_holders(prober: HangingProber, ends: Mapping[_Where, Ends], deadline: Deadline) -> dict[_Where, Holder]:
    """Of partitions whose last stable offset is held: the open transaction that begins there.

    None for one whose transaction has ended since.
    """
    held = {place: each.stable for place, each in ends.items() if each.stable < each.end}
    first = _first_of(prober.open_in(held)) if held else {}
    first = {place: one for place, one in first.items() if one.start_offset <= held[place]}
    owners = prober.owners({one.producer_id for one in first.values()}, deadline) if first else {}
    found = {}
    for place, one in first.items():
        owner = owners.get(one.producer_id)
        name, since = (owner.transactional_id, owner.started_ms) if owner is not None else ("", -1)
        found[place] = Holder(one.producer_id, one.epoch, one.start_offset, name, since)
    return found


def _first_of(opened: Iterable[Hanging]) -> dict[_Where, Hanging]:
    first: dict[_Where, Hanging] = {}
    for one in opened:
        place = (one.topic, one.partition)
        if place not in first or one.start_offset < first[place].start_offset:
            first[place] = one
    return first
