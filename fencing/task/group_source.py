"""A source task that reads as a member of a consumer group: its offsets are committed in its transactions (KIP-447).

The rules: offsets are sent with the group's metadata, so that the broker refuses them, and the whole transaction, from
a member of an old generation; the open transaction is finished inside the revocation, in the generation in which it was
read; after a loss, and after a commit that may have failed, the attempt's current run ends, and the next one joins
again and starts from the committed offsets. One producer is enough for any number of partitions.

Members read offsets only when no transaction holds newer ones, so the partitions of a lost task wait until its open
transaction ends. The task's next attempt ends it at once, because it takes over the transactional id. If there is none
(no slot, no worker, no leader), the transaction timeout ends it, so that is as short as the session timeout: see
`fencing.kafka.connection.transaction_timeout_ms`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from ringfence.connectors.api import ConnectorError, InputRecord
from ringfence.fencing.errors import Abortable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.membership import InputGroupMember
from ringfence.fencing.offsets.source_offsets import Offset, Partition
from ringfence.fencing.transactions.client import Position

log = logging.getLogger(__name__)


GroupOffsets = tuple[()] | tuple[list[Position], bytes]
"""Offsets of a consumer group, with its metadata, for a commit."""


class GroupSource:
    """The membership of one run. All methods are called on the task's thread.

    finish: commits what is open, and raises on failure; set before the first poll.
    """

    def __init__(
        self,
        connection: Connection,
        client_id: str,
        group: str,
        topics: Sequence[str],
        session_timeout_ms: int,
        first: Callable[[str, int], int | None],
    ) -> None:
        """first: returns where to start a partition for which the group has no offset; None: at its beginning."""
        self.finish: Callable[[], None] = _nothing
        self._trouble: Exception | None = None
        self._input = InputGroupMember(
            connection,
            group,
            topics,
            client_id,
            self._on_revoke,
            self._on_lost,
            session_timeout_ms=session_timeout_ms,
            max_poll_interval_ms=max(30_000, session_timeout_ms),
            first=first,
        )

    def poll(self, seconds: float, limit: int) -> Sequence[InputRecord]:
        """See `connectors.api.GroupInput`. Raises the error of a transaction that a rebalance interrupted."""
        records = self._input.poll(seconds, limit)
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        return records

    def _on_revoke(self) -> None:
        try:
            self.finish()
        except Exception as error:  # noqa: BLE001 - raised by `poll`, when the client's callback is over
            self._trouble = error

    def _on_lost(self) -> None:
        self._trouble = Abortable(
            "The group has given this member's partitions to others: the open transaction is aborted"
        )

    def offsets_for(self, offsets: Sequence[tuple[Partition, Offset | None]]) -> tuple[list[Position], bytes]:
        """Return what a transaction must commit for these source offsets: positions, and the group's metadata.

        Raises `Abortable` if the member owns no partition any more, `ConnectorError` for offsets that are not the
        group's.
        """
        metadata = self._input.metadata
        if metadata is None:
            raise Abortable("This member no longer owns the partitions that the open transaction was read from")
        return [position_of(partition, offset) for partition, offset in offsets], metadata.raw

    def close(self) -> None:
        """Leave the group at once. The open transaction was finished or aborted before."""
        self.finish = _nothing
        self._input.close()


def _nothing() -> None:
    """Do nothing: there is no transaction yet, or no more."""


def position_of(partition: Partition, offset: Offset | None) -> Position:
    """Return the position in a source partition and offset. Raises `ConnectorError`."""
    topic, number = partition.get("topic"), partition.get("partition")
    last = (offset or {}).get("offset")
    if not isinstance(topic, str) or not _whole(number) or not _whole(last):
        raise ConnectorError(
            "A task that reads a consumer group gives source partitions with `topic` and `partition`, and source "
            f"offsets with `offset`, the last record's; these are {dict(partition)} and {offset}"
        )
    return topic, int(str(number)), int(str(last)) + 1


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def no_groups(
    group: str, topics: Sequence[str], *, session_timeout_ms: int, first: Mapping[tuple[str, int], int] | None = None
) -> GroupSource:
    """Refuse to join, for tasks without transactions."""
    raise ConnectorError(
        f"Reading topics as a member of group {group} needs transactions, which take its offsets along: set "
        "exactly.once.source.support=enabled on the workers, or let the connector divide the partitions itself"
    )
