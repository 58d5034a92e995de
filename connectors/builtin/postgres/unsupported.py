"""Settings of Debezium that change what records are or when they come, and that this connector does not have.

They are refused, so that a configuration that is brought along does not quietly mean something else. Debezium's
default is accepted. Settings that only tune Debezium's own threads and queues are accepted and have no effect.
"""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.builtin.postgres.settings import CONFIG_DEF, SNAPSHOT

_FAMILIES: Final = (
    "column.mask.",
    "column.truncate.",
    "column.propagate.",
    "datatype.propagate.",
    "notification.",
    "signal.",
    "snapshot.",
    "openlineage.",
)
_NAMES: Final[Mapping[str, str]] = {
    "converters": "",
    "custom.metric.tags": "",
    "database.initial.statements": "",
    "database.sslcert": "",
    "database.sslfactory": "",
    "database.sslkey": "",
    "database.sslpassword": "",
    "flush.lsn.source": "true",
    "include.schema.comments": "false",
    "incremental.snapshot.allow.schema.changes": "false",
    "incremental.snapshot.watermarking.strategy": "insert_insert",
    "lsn.flush.mode": "connector",
    "post.processors": "",
    "read.only": "false",
    "replica.identity.autoset.values": "",
    "schema.name.adjustment.mode": "none",
    "skip.messages.without.change": "false",
    "signal.enabled.channels": "source",
    "slot.drop.on.stop": "false",
    "slot.stream.params": "",
    "sourceinfo.struct.maker": "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
    "topic.delimiter": ".",
    "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
    "transaction.metadata.factory": "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",
}
"""With Debezium's defaults."""


_MODES: Final[Mapping[str, str]] = {
    "always": "Tasks also start by themselves, where a worker is lost, and each start would read all rows again. Use "
    "an incremental snapshot whenever you want them.",
    "never": "Use no_data, which is what Debezium calls it now.",
}
"""Of `snapshot.mode`, with what to use."""


def find_unsupported(config: Mapping[str, str]) -> dict[str, list[str]]:
    """By setting, why it is refused."""
    mode = config.get(SNAPSHOT, "").strip().lower()
    return {
        **({SNAPSHOT: [f"{SNAPSHOT}={mode} is not there. {_MODES[mode]}"]} if mode in _MODES else {}),
        **{
            name: [f"{name} is a setting of Debezium that PostgresSource does not have yet. Remove it."]
            for name, value in config.items()
            if name not in CONFIG_DEF.keys
            and (name.startswith(_FAMILIES) or name in _NAMES)
            and value.strip() not in ("", _NAMES.get(name))
        },
    }
