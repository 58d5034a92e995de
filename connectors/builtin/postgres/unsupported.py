"""Debezium's settings that change the content or order of records, and that this connector does not support.

They are refused, so that a Debezium configuration does not silently change its meaning. Debezium's default is accepted.
Settings that only tune Debezium's threads and queues are accepted and have no effect.
"""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.builtin.postgres.setting_names import SNAPSHOT
from ringfence.connectors.builtin.postgres.settings import CONFIG_DEF

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
TUNING: Final = frozenset(
    {
        "signal.poll.interval.ms",
        "snapshot.delay.ms",
        "snapshot.fetch.size",
        "snapshot.lock.timeout.ms",
        "snapshot.locking.mode",
        "snapshot.max.threads",
    }
)
"""Settings of these families that do not change what is delivered. They have no effect: no lock is taken."""
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
"""Unsupported settings, with Debezium's defaults."""


_MODES: Final[Mapping[str, str]] = {
    "always": "Tasks also restart when a worker fails, and each start would read all rows again. To read them again, "
    "request an incremental snapshot.",
    "never": "Use no_data, Debezium's new name of this mode.",
}
"""Unsupported values of `snapshot.mode`, with the alternative."""


def find_unsupported(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return errors by setting."""
    mode = config.get(SNAPSHOT, "").strip().lower()
    return {
        **({SNAPSHOT: [f"{SNAPSHOT}={mode} is not supported. {_MODES[mode]}"]} if mode in _MODES else {}),
        **{
            name: [f"PostgresSource does not support Debezium's setting {name} yet. Remove it."]
            for name, value in config.items()
            if name not in CONFIG_DEF.keys
            and name not in TUNING
            and (name.startswith(_FAMILIES) or name in _NAMES)
            and value.strip() not in ("", _NAMES.get(name))
        },
    }
