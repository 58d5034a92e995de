"""Matches a segment of a producer's records with one of its transactions. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from ringfence.fencing.kafka.record_batches import Marker
from ringfence.fencing.offsets.record_counts import AttemptCounts
from ringfence.fencing.provenance.segments import SEQUENCES, Segment, numbered_at

_MARKERS_APART_MS: Final = (0, 1, 2, 3, 5, 8, 13, 21, 50, 100)
"""How far apart the markers of one transaction may be, in ms: they are written at about the same time."""

Where = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class OffsetsSegment:
    """The source offsets of one transaction in one partition of the offsets topic. counts: those that it has."""

    segment: Segment
    counts: AttemptCounts | None

    @property
    def span(self) -> tuple[int, int] | None:
        return None if self.counts is None else self.counts.span


@dataclass(frozen=True, slots=True)
class Match:
    """A match. exact: the numbers prove it; otherwise it is the transaction with the marker closest in time."""

    offsets: OffsetsSegment
    exact: bool


def match(
    record: Segment, candidates: Sequence[OffsetsSegment], segments: Mapping[Where, Sequence[Segment]]
) -> Match | None:
    """segments: of the producer in every partition it may have written to; candidates: of the same producer id."""
    ours = [each for each in candidates if _may_be(each, record)]
    with_span = [each for each in ours if each.span is not None]
    if record.has_own_epoch:
        return Match((with_span or ours)[0], exact=True) if ours else None
    if len(segments) == 1:
        # All that this producer sent is here, so what it had sent when this transaction ended is one number.
        for each in with_span:
            before, after = each.span or (0, 0)
            if before < after and (after - record.end_sequence) % SEQUENCES == 0:
                return Match(each, exact=True)
    nearest = sorted(with_span or ours, key=lambda each: abs(each.segment.marker_ms - record.marker_ms))
    for each in nearest[:3]:
        if each.span is not None and _adds_up(record, each.span[1], segments):
            return Match(each, exact=True)
    return Match(nearest[0], exact=False) if nearest else None


def _may_be(each: OffsetsSegment, record: Segment) -> bool:
    return each.segment.epoch == record.epoch and each.segment.marker is record.marker


def _adds_up(record: Segment, after: int, segments: Mapping[Where, Sequence[Segment]]) -> bool:
    """Return whether the record's producer had sent `after` records when its transaction ended, over all partitions."""
    return any(total_at(segments, record.epoch, record.marker_ms + late) == after for late in _MARKERS_APART_MS)


def total_at(by_place: Mapping[Where, Sequence[Segment]], epoch: int, time_ms: int) -> int | None:
    """Return the number of records over all partitions; None if it is unknown for one of them."""
    numbers = [numbered_at(segments, epoch, time_ms) for segments in by_place.values()]
    totals = [each for each in numbers if each is not None]
    return sum(totals) if len(totals) == len(numbers) else None


def companions(main: OffsetsSegment, candidates: Iterable[OffsetsSegment]) -> list[OffsetsSegment]:
    """Return the source offsets of the same transaction in other partitions of the offsets topic: those nearest in
    time."""
    by_partition: dict[int, list[OffsetsSegment]] = {}
    ours = main.segment
    late = inf if ours.has_own_epoch else 1
    for each in candidates:
        one = each.segment
        alike = one.epoch == ours.epoch and one.marker is Marker.COMMIT
        if alike and one.partition != ours.partition and each.counts is None:
            by_partition.setdefault(one.partition, []).append(each)
    nearest = (min(ones, key=lambda one: abs(one.segment.marker_ms - ours.marker_ms)) for ones in by_partition.values())
    return [each for each in nearest if abs(each.segment.marker_ms - ours.marker_ms) <= late]


def data_of(
    offsets: OffsetsSegment, by_place: Mapping[Where, Sequence[Segment]]
) -> tuple[list[tuple[str, Segment]], bool]:
    """Return the records of a transaction with these offsets, and whether the numbers prove that these are all."""
    epoch, marker = offsets.segment.epoch, offsets.segment.marker
    span = offsets.span
    if offsets.segment.has_own_epoch:
        own = [(where[0], one) for where, segments in by_place.items() for one in segments if one.epoch == epoch]
        return own, span is not None and sum(one.count for _, one in own) == span[1] - span[0]
    if span is not None and len(by_place) == 1:
        ((where, segments),) = by_place.items()
        segments_of_data = [
            (where[0], one) for one in segments if one.epoch == epoch and span[0] < one.end_sequence <= span[1]
        ]
        return segments_of_data, sum(one.count for _, one in segments_of_data) == span[1] - span[0]
    for late in _MARKERS_APART_MS:
        near = [
            (topic, one)
            for (topic, _), segments in by_place.items()
            for one in segments
            if one.epoch == epoch and one.marker is marker and abs(one.marker_ms - offsets.segment.marker_ms) <= late
        ]
        if span is None:
            if near:
                return near, False
        elif sum(one.count for _, one in near) == span[1] - span[0]:
            exact = len({(topic, one.partition) for topic, one in near}) == len(near)
            return near, exact
    return near, False
