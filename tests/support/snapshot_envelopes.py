"""What a snapshot and the stream behind it wrote."""

from collections.abc import Sequence
from typing import Any

from ringfence.connectors.api import SourceRecord
from tests.postgres.local import Database, Run


def envelopes(records: Sequence[SourceRecord], table: str = "public.t") -> list[tuple[Any, Any]]:
    """Key and envelope of each, tombstones left out."""
    return [(one.key, one.value) for one in records if one.value is not None and one.topic == f"local.{table}"]


def ops(records: Sequence[SourceRecord], table: str = "public.t") -> list[tuple[str, Any]]:
    """Operation and key."""
    return [(value["op"], None if key is None else key["id"]) for key, value in envelopes(records, table)]


def finish(database: Database, run: Run) -> list[SourceRecord]:
    """Everything up to now."""
    database.await_all(run)
    return run.records
