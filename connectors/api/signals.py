"""What users ask a running task to do, by the REST API or a page."""

from collections.abc import Mapping
from typing import NamedTuple


class Signal(NamedTuple):
    """number: increases with each signal of a connector; a task that commits it handles each signal once. kind: as the
    connector names it. data: its parameters, as parsed from JSON.
    """

    number: int
    kind: str
    data: Mapping[str, object]
