"""The identity of an open transaction for its coordinator."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class OpenTransaction:
    """A transaction that is flushed, but has not ended: any client with Write on the id can end it."""

    transactional_id: str
    producer_id: int
    epoch: int
