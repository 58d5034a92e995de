"""Reads a connector's source offsets from the database, as far as one process may hold them."""

from typing import Final

from django.db.models import Count, Sum
from django.db.models.functions import Length

from ringfence.projection.models import SourceOffset

MOST_ROWS: Final = 200_000
MOST_CHARACTERS: Final = 32 << 20


class TooManyOffsets(Exception):
    """There are more than a process reads at once. The message is for people."""


def count(connector: str) -> int:
    """Return how many source partitions have an offset."""
    return SourceOffset.objects.filter(connector=connector).count()


def read(connector: str) -> list[tuple[str, str]]:
    """Return source partitions and offsets as packed JSON, in order. Raises `TooManyOffsets`."""
    rows = SourceOffset.objects.filter(connector=connector)
    size = rows.aggregate(rows=Count("id"), characters=Sum(Length("partition") + Length("offset")))
    if size["rows"] > MOST_ROWS or (size["characters"] or 0) > MOST_CHARACTERS:
        raise TooManyOffsets(
            f"Connector {connector} has {size['rows']:,} source offsets of {size['characters']:,} characters: more "
            f"than are read at once ({MOST_ROWS:,}, {MOST_CHARACTERS:,}). Its page shows them a hundred at a time"
        )
    return list(rows.order_by("partition").values_list("partition", "offset"))
