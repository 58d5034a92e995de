"""Reads record batches of a source, another cluster: the framework's `BatchReader`."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.api.fetching import NO_TOPIC, NOT_ALLOWED, NotFetchable, OutOfRange, Place
from ringfence.fencing.fetching.fetched_batches import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    FetchedPartition,
    Position,
    select_committed,
    split_batches,
)
from ringfence.fencing.fetching.fetcher import Fetcher, FetchSettings, FetchState, Problem, ProblemKind, TakeRecords
from ringfence.fencing.transactions.broker_connection import LookUp
from ringfence.fencing.transactions.error_codes import name_of
from ringfence.fencing.transactions.settings import access_of, addresses_of

_MOST_BYTES: Final = 48 * 1024 * 1024
"""A connection takes no larger answers than 64 MiB, and one may have a batch more than it should."""
_REQUEST_MS: Final = 30_000


def take_committed(most_bytes: int, *, checks: bool = False) -> TakeRecords[Fetched]:
    """Return how a reader takes the committed batches of an answer. Raises `ConnectorError`, `NotFetchable`.

    most_bytes: of a batch that may go whole. checks: whether to compare checksums.
    """

    def take(place: Place, position: Position, answer: FetchedPartition) -> tuple[list[Fetched], Position]:
        try:
            batches = list(split_batches(*place, answer.records, position.offset, most_bytes))
        except ValueError as error:
            raise ConnectorError(f"What the broker returned of {place[0]}-{place[1]} is damaged: {error}") from error
        for each in batches if checks else ():
            each.check()
        if batches:
            newest = batches[-1]
            position = Position(newest.last + 1, position.leader_epoch, newest.leader_epoch)
        return select_committed(batches, answer.aborted), position

    return take


def make_error(problem: Problem) -> Exception:  # noqa: C901 - a table
    """Return the error for the connector, with what helps."""
    topic, offset, name = problem.topic, problem.offset, name_of(problem.code)
    match problem.kind:
        case ProblemKind.NO_TOPIC:
            return RetriableError(f"Topic {topic} cannot be read: {name}. {NO_TOPIC}")
        case ProblemKind.NOT_ALLOWED:
            return ConnectorError(f"Topic {topic} cannot be read: TOPIC_AUTHORIZATION_FAILED. {NOT_ALLOWED}")
        case ProblemKind.CREATED_AGAIN:
            return ConnectorError(
                f"Topic {topic} was deleted and created again while it was read: its records are others with old "
                "offsets. To read it from its beginning, stop the connector, reset its offsets and resume it."
            )
        case ProblemKind.TRUNCATED:
            return ConnectorError(
                f"Partition {problem.partition} of topic {topic} was truncated before offset {offset}, up to which it "
                "was read: a broker without its newest records became its leader (unclean leader election). Its "
                "current records are others with old offsets. Compare both sides, then restart the task."
            )
        case ProblemKind.OUT_OF_RANGE:
            return OutOfRange((topic, problem.partition), offset)
        case ProblemKind.REFUSED:
            return RetriableError(f"Topic {topic} cannot be read: {name} in partition {problem.partition}")
        case ProblemKind.SILENT:
            return RetriableError(f"A broker of the source cluster has not answered {problem.text}")
        case ProblemKind.UNREACHED:
            return RetriableError(f"No broker of the source cluster is reached: {problem.text}")
        case ProblemKind.DENIED:
            return ConnectorError(f"The source cluster cannot be read: {problem.text}")
        case ProblemKind.TOO_OLD:
            return NotFetchable(problem.text)


class PartitionReader(Fetcher[Fetched]):
    """The framework's `BatchReader`, for one thread."""

    def __init__(self, settings: Mapping[str, str], isolation: str, most_bytes: int, look_up: LookUp) -> None:
        """settings: librdkafka's names. most_bytes: of a batch that may go whole. look_up: returns the addresses to
        which connections may go, or raises `EgressDenied`. Raises `Fatal`, OSError or ValueError for settings that
        cannot be used.
        """

        def number(name: str, default: int) -> int:
            return min(int(settings.get(name, default)), _MOST_BYTES)

        defaults = FetchSettings(READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED)
        super().__init__(
            FetchState(take_committed(most_bytes, checks=settings.get("check.crcs") == "true"), make_error),
            addresses_of(settings.get("bootstrap.servers", "")),
            access_of(settings.get("client.id", "ringfence"), settings, look_up),
            FetchSettings(
                defaults.isolation,
                defaults.wait_ms,
                int(settings.get("fetch.min.bytes", 1)),
                number("fetch.max.bytes", defaults.bytes),
                number("max.partition.fetch.bytes", defaults.partition_bytes),
                (int(settings.get("socket.timeout.ms", _REQUEST_MS)) + defaults.wait_ms) / 1000,
                settings.get("client.rack", ""),
            ),
        )
