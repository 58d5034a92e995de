"""Settings for the preview of a Java connector, so that it changes nothing at the source.

Plugins do not support previews. So Debezium's connectors are configured to read the rows of the tables only: with the
connector's own settings, they would create a replication slot and a publication, or write to the schema history.
"""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.java_settings import SNAPSHOT_TRANSACTION

PREVIEW: Final = "java.preview"
"""In a task's configuration: the task is for a preview, and starts without source offsets."""

_DEBEZIUM: Final = "io.debezium."
_READING: Final = {
    "snapshot.mode": "initial_only",
    "snapshot.locking.mode": "none",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "heartbeat.interval.ms": "0",
    "signal.enabled.channels": "source",
    "notification.enabled.channels": "",
    "openlineage.integration.enabled": "false",
    SNAPSHOT_TRANSACTION: "false",
}


def changes_nothing(java_class: str) -> bool:
    """Return whether a preview of this connector is known not to change its source."""
    return java_class.startswith(_DEBEZIUM)


def preview_settings(java_class: str) -> Mapping[str, str]:
    """Return the settings that override a connector's own settings in a preview."""
    return {**_READING, PREVIEW: "true"} if changes_nothing(java_class) else {}
