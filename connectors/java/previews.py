"""What a preview of a Java connector leaves out, so that it changes nothing at the source.

A plugin does not know of previews. Debezium's are told to read the rows of the tables and no more: with their own
settings they would leave a replication slot and a publication behind, or write into the schema history.
"""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.snapshot_settings import SNAPSHOT_TRANSACTION

PREVIEW: Final = "java.preview"
"""In the configuration of a task: it is for a preview, and begins without source offsets."""

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
    """Whether a preview of this connector is known to leave its source as it is."""
    return java_class.startswith(_DEBEZIUM)


def preview_settings(java_class: str) -> Mapping[str, str]:
    """What stands in place of a connector's own settings in its preview."""
    return {**_READING, PREVIEW: "true"} if changes_nothing(java_class) else {}
