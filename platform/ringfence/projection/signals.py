"""Signals of the projection, sent inside the database transaction that writes its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.dispatch import Signal

configurations_read: Final = Signal()
"""`written`: configurations of connectors (`WrittenConfig`), in the order of the config topic."""
hanging_transaction_ended: Final = Signal()
"""`connector`, `by` (who ended it), `message`: a hanging transaction was ended automatically."""
foreign_record_found: Final = Signal()
"""`connector` ("" for none), `message`, `offset`, `key`, `time_ms`: a config record that no leader wrote."""
housekeeping_due: Final = Signal()
"""`now_ms`: receivers delete what is older than their retention. Sent every few minutes, by one worker."""


@dataclass(frozen=True, slots=True)
class WrittenConfig:
    """A configuration as the config topic has it."""

    connector: str
    config_offset: int
    time_ms: int
    config: Mapping[str, str]
