"""Notes that people keep about a connector in its configuration: its purpose, owner and runbook.

Kafka Connect and connectors ignore these settings. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

DESCRIPTION: Final = "ringfence.description"
OWNER: Final = "ringfence.owner"
RUNBOOK: Final = "ringfence.runbook"
_MOST: Final = 500
_LINKS: Final = ("https://", "http://")


@dataclass(frozen=True, slots=True)
class Notes:
    """Each is "" if not set. runbook_link: the address, if the runbook is one that is safe to follow."""

    description: str
    owner: str
    runbook: str

    @property
    def runbook_link(self) -> str:
        return self.runbook if self.runbook.lower().startswith(_LINKS) else ""

    def __bool__(self) -> bool:
        return bool(self.description or self.owner or self.runbook)


def read_notes(config: Mapping[str, str]) -> Notes:
    """Read the notes from a connector's configuration, each cut to its maximum length."""
    description, owner, runbook = (config.get(name, "").strip()[:_MOST] for name in (DESCRIPTION, OWNER, RUNBOOK))
    return Notes(description, owner, runbook)
