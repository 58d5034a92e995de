"""Reads topics that hold our own records, or those of our tasks, with everything that a consumer leaves out: the
batches with their producers, control records, and what is behind the oldest open transaction.

The addresses and credentials are those of all other clients of a connection.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from ringfence.connectors.api.fetching import NotFetchable, Place, Run
from ringfence.connectors.sdk import egress, worker_limits
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.fetching.fetched_batches import (
    READ_UNCOMMITTED,
    Fetched,
    FetchedPartition,
    Position,
    split_batches,
)
from ringfence.fencing.fetching.fetcher import Fetcher, FetchSettings, FetchState, MakeError, Problem, ProblemKind
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.record_batches import Batch, Marker, parse
from ringfence.fencing.transactions.error_codes import name_of
from ringfence.fencing.transactions.settings import access_of, addresses_of

_T = TypeVar("_T")
_REQUEST_S: Final = 10.0
_WAIT_MS: Final = 100
_SLICE_SECONDS: Final = 0.1


def open_fetcher(
    connection: Connection, state: FetchState[_T], wait_ms: int, isolation: bytes = READ_UNCOMMITTED
) -> Fetcher[_T]:
    """Return a fetcher with the addresses and credentials of a connection. wait_ms: how long a broker delays an empty
    response. Raises `Fatal` if the settings cannot be used.
    """
    look_up = egress.Policy(worker_limits.current().egress).addresses if connection.guarded else egress.look_up
    try:
        access = access_of(connection.client_id, connection.settings, look_up)
    except (OSError, ValueError) as error:  # for example, a certificate that is not there
        raise Fatal(f"The settings for {connection.bootstrap} cannot be used: {error}") from error
    settings = FetchSettings(isolation, wait_ms, request_s=_REQUEST_S)
    return Fetcher(state, addresses_of(connection.bootstrap), access, settings)


def errors_of(connection: Connection, lost: type[FencingError]) -> MakeError:
    """Return what makes errors of problems. lost: the error for a partition that no longer has the position."""
    where = connection.bootstrap

    def make_error(problem: Problem) -> Exception:
        topic, name = problem.topic, name_of(problem.code) if problem.code else None
        match problem.kind:
            case ProblemKind.CREATED_AGAIN | ProblemKind.TRUNCATED | ProblemKind.OUT_OF_RANGE:
                return lost(f"Topic {topic} was truncated or created again. It is read again from its beginning", name)
            case ProblemKind.NOT_ALLOWED:
                return Fatal(f"Reading topic {topic} at {where}: {name}. Grant Read and Describe on it", name)
            case ProblemKind.NO_TOPIC | ProblemKind.REFUSED:
                return Retriable(f"Reading topic {topic}: {name}. It is tried again", name)
            case ProblemKind.SILENT:
                return Retriable(f"A broker of {where} has not answered {problem.text}. It is tried again")
            case ProblemKind.UNREACHED:
                return Retriable(f"No broker of {where} answers: {problem.text}. It is tried again")
            case ProblemKind.DENIED | ProblemKind.TOO_OLD:
                return Fatal(problem.text)

    return make_error


def _take_heads(place: Place, position: Position, answer: FetchedPartition) -> tuple[list[Batch], Position]:
    """Return the batches that end at the position or after it."""
    batches = [each for each in parse(answer.records) if each.last >= position.offset]
    return batches, Position(batches[-1].last + 1, position.leader_epoch) if batches else position


class RawReader:
    """Reads one topic. Use as a context manager. Raises `Retriable` (no answer), `Fatal` (refused)."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._topic = topic
        state = FetchState(_take_heads, errors_of(connection, Retriable))
        self._fetcher = open_fetcher(connection, state, _WAIT_MS)

    def __enter__(self) -> "RawReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._fetcher.close()

    def read(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        deadline: Deadline,
        take: Callable[[int, Batch], None],
    ) -> None:
        """Pass each batch between a partition's start and end to `take`, in order within the partition.

        The first may begin before the start. An end must not be after the read_uncommitted end offset. The deadline
        ends a reading that does not advance.
        """
        positions = {partition: start for partition, start in starts.items() if start < ends[partition]}
        self._fetcher.add({(self._topic, partition): start for partition, start in positions.items()})
        try:
            while positions:
                arrived = self._fetcher.poll_places(deadline.slice(_SLICE_SECONDS))
                for (_, partition), batch in arrived:
                    if partition not in positions:
                        continue
                    if batch.first < ends[partition]:
                        take(partition, batch)
                        positions[partition] = batch.last + 1
                    if batch.last + 1 >= ends[partition]:
                        self._leave(positions, partition)
                for partition in list(positions):
                    # Compaction has removed the rest.
                    if self._fetcher.empty_up_to.get((self._topic, partition), -1) >= ends[partition]:
                        self._leave(positions, partition)
                if not arrived and deadline.expired:
                    behind = {number: (position, ends[number]) for number, position in positions.items()}
                    raise Retriable(
                        f"Topic {self._topic} could not be read to its end in time: partition: (position, end) "
                        f"{behind}. Its leaders do not answer; it is tried again"
                    )
        finally:
            self._fetcher.remove([(self._topic, partition) for partition in positions])

    def _leave(self, positions: dict[int, int], partition: int) -> None:
        del positions[partition]
        self._fetcher.remove([(self._topic, partition)])


class Entry(NamedTuple):
    """A record, or a marker, which has `committed`. producer_id: -1 outside of transactions."""

    offset: int
    producer_id: int
    key: bytes | None = None
    value: bytes | None = None
    committed: bool | None = None


_FOLLOW_WAIT_MS: Final = 500


def split_answer(place: Place, position: Position, answer: FetchedPartition) -> list[Fetched]:
    """Return the batches of an answer. Raises `NotFetchable` for the formats before Kafka 0.11, `Fatal` for bytes that
    are no batches.
    """
    try:
        return list(split_batches(*place, answer.records, position.offset, 0))
    except ValueError as error:
        raise _make_damage_error(place, error) from error


def _make_damage_error(place: Place, error: Exception) -> Fatal:
    return Fatal(f"What the broker returned of {place[0]}-{place[1]} is no record batch: {error}")


def _take_batches(place: Place, position: Position, answer: FetchedPartition) -> tuple[list[Fetched], Position]:
    try:
        batches = split_answer(place, position, answer)
    except NotFetchable as error:
        raise _make_damage_error(place, error) from error
    if not batches:
        return batches, position
    return batches, Position(batches[-1].last + 1, position.leader_epoch, batches[-1].leader_epoch)


class PartitionFollower:
    """Reads from `position` on. For one thread."""

    def __init__(self, connection: Connection, topic: str, partition: int, position: int) -> None:
        """Raises `Fatal` if the settings cannot be used."""
        self._place = topic, partition
        self.position = position
        """The offset of the next record: everything before it was returned."""
        state = FetchState(_take_batches, errors_of(connection, Fatal))
        self._fetcher = open_fetcher(connection, state, _FOLLOW_WAIT_MS)
        self._fetcher.add({self._place: position})

    def poll(self) -> list[Entry]:
        """Return the entries that arrive within half a second. Raises `Retriable` (call it again) and `Fatal`."""
        entries: list[Entry] = []
        for batch in self._fetcher.poll(_FOLLOW_WAIT_MS / 1000):
            entries += self._entries(batch)
            self.position = batch.last + 1
        return entries

    def _entries(self, batch: Fetched) -> Iterator[Entry]:
        producer_id = batch.producer_id if batch.is_transactional else -1
        if batch.is_control:
            marker = batch.marker
            if marker is not None:
                yield Entry(batch.first, producer_id, committed=marker is Marker.COMMIT)
            return
        run = Run.empty(*self._place)
        batch.add_to(run)
        for offset, key, value in zip(run.offsets, run.keys, run.values, strict=True):
            yield Entry(offset, producer_id, key, value)

    def close(self) -> None:
        self._fetcher.close()
