"""The names of the platform's own topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of the worker's four topics, and the ids of those without which an attempt must end ("": unknown)."""

    config: str
    offsets: str
    status: str
    events: str
    config_id: str = ""
    offsets_id: str = ""
