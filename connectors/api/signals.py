"""What people ask a running task to do, by the REST API or a page."""

from collections.abc import Mapping
from typing import NamedTuple


class Signal(NamedTuple):
    """number: grows with each signal of a connector, so that a task that commits it carries each out once. kind: as the
    connector names it. data: what belongs to it, as JSON brings it.
    """

    number: int
    kind: str
    data: Mapping[str, object]
