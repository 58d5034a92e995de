"""Says in words what an audited request did. Pure."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from ringfence.audit.models import AuditEntry

_DEEDS: Final[Mapping[str, str]] = {
    "pause": "Paused",
    "resume": "Resumed",
    "stop": "Stopped",
    "restart": "Restarted",
    "restart-failed": "Failed tasks restarted",
    "fence": "Fenced",
    "round": "Fencing round started again",
    "level": "Log level changed",
    "rollback": "Configuration rolled back",
    "offsets": "Source offsets changed",
    "reset": "Source offsets reset",
    "delete": "Deleted",
}
"""By the last word of the address."""
_ACTIONS: Final[Mapping[str, str]] = {
    "edit": "Configuration changed",
    "create": "Created",
    "operate": "Operated",
    "offsets": "Source offsets changed",
    "fence": "Fenced",
    "delete": "Deleted",
}


def describe_deed(entry: AuditEntry) -> str:
    """Return what was done, such as `Paused`; without a word for it, the action."""
    address = entry.request.partition(" ")[2]
    words = [word for word in urlsplit(address).path.split("/") if word]
    deed = _DEEDS.get(words[-1], "") if words else ""
    return deed or _ACTIONS.get(entry.action, entry.action.capitalize())
