"""The names of the topics that the platform keeps for itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of the worker's four topics, and the ids of those that an attempt must not outlive ("": not known)."""

    config: str
    offsets: str
    status: str
    events: str
    config_id: str = ""
    offsets_id: str = ""
