"""The settings of a Java connector that have no counterpart in Kafka Connect: processes, snapshots."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.api import Choices, ConfigDef, ConfigType, Importance, OneOf, Width

JAVA_PROCESS: Final = "java.process"
OWN: Final = "own"
SHARED: Final = "shared"
SNAPSHOT_TRANSACTION: Final = "snapshot.transaction"
SNAPSHOT_TRANSACTION_TIMEOUT_MS: Final = "snapshot.transaction.timeout.ms"
SNAPSHOT_TRANSACTION_DROP_SLOT: Final = "snapshot.transaction.drop.slot"
DEFAULT_TIMEOUT_MS: Final = 900_000
"""The brokers' own default of transaction.max.timeout.ms."""


def java_keys() -> ConfigDef:
    """Return their definitions."""
    return ConfigDef().define(
        JAVA_PROCESS,
        ConfigType.STRING,
        default=OWN,
        validator=OneOf(OWN, SHARED),
        recommender=Choices(OWN, SHARED),
        importance=Importance.LOW,
        documentation="Whether each task has a Java process of its own, or shares one with other tasks on its machine "
        "that set this, too. That takes less memory, and finds the connector's code compiled. But what ends the "
        "process, such as a full heap, ends all of these tasks, and they are restarted.",
        group="Common",
        width=Width.SHORT,
        display_name="Java process",
    )


def snapshot_keys() -> ConfigDef:
    """Return their definitions."""
    keys = ConfigDef()
    group = keys.group("Exactly Once Support")
    group.flag(
        SNAPSHOT_TRANSACTION,
        "Commit an initial snapshot, which is detected by source offsets in Debezium's form, as one transaction. A "
        "snapshot that is interrupted then leaves no rows in the topics, and no row is repeated. read_committed "
        "consumers see nothing of it until it ends.",
        False,
        width=Width.SHORT,
        display_name="Snapshot as one transaction",
    )
    group.long(
        SNAPSHOT_TRANSACTION_TIMEOUT_MS,
        "With snapshot.transaction, the maximum duration of the snapshot, in milliseconds. The brokers' "
        "transaction.max.timeout.ms and the worker's connector.transaction.timeout.max.ms must allow it.",
        DEFAULT_TIMEOUT_MS,
        1000,
        2**31 - 1,
        importance=Importance.LOW,
        display_name="Longest snapshot",
    )
    group.flag(
        SNAPSHOT_TRANSACTION_DROP_SLOT,
        "With snapshot.transaction and Debezium for PostgreSQL: drop the replication slot that an interrupted snapshot "
        "has left, before the next one. Without it, the task reports the slot and does not start: with an old slot, "
        "changes from around the beginning of a snapshot are repeated.",
        False,
        width=Width.SHORT,
        display_name="Drop the slot of an interrupted snapshot",
    )
    return keys


def snapshot_timeout_ms(config: Mapping[str, str]) -> int:
    """Return how long the snapshot's transaction may be open; 0 without one. Raises ValueError if it is
    not a number.
    """
    if config.get(SNAPSHOT_TRANSACTION, "").strip().lower() != "true":
        return 0
    return int(config.get(SNAPSHOT_TRANSACTION_TIMEOUT_MS, "").strip() or DEFAULT_TIMEOUT_MS)
