"""The schemas around rows: Debezium's envelope, its source block, transaction metadata, messages and heartbeats."""

from typing import Final

from ringfence.connectors.api.schemas import BYTES, INT64, STRING, Schema, SchemaType, array, optional, struct

_OPTIONAL_STRING: Final = optional(STRING)
_OPTIONAL_INT64: Final = optional(INT64)
_SNAPSHOT: Final = Schema(
    SchemaType.STRING,
    name="io.debezium.data.Enum",
    version=1,
    optional=True,
    default="false",
    parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
)
SOURCE: Final = struct(
    {
        "version": STRING,
        "connector": STRING,
        "name": STRING,
        "ts_ms": INT64,
        "snapshot": _SNAPSHOT,
        "db": STRING,
        "sequence": _OPTIONAL_STRING,
        "ts_us": _OPTIONAL_INT64,
        "ts_ns": _OPTIONAL_INT64,
        "schema": STRING,
        "table": STRING,
        "txId": _OPTIONAL_INT64,
        "lsn": _OPTIONAL_INT64,
        "xmin": _OPTIONAL_INT64,
        "origin": _OPTIONAL_STRING,
        "origin_lsn": _OPTIONAL_INT64,
    },
    "io.debezium.connector.postgresql.Source",
    version=1,
)
"""The source block. `lsn`: the change's position; `sequence`: a JSON array, the last transaction's end and `lsn`."""
BLOCK: Final = struct(
    {"id": STRING, "total_order": INT64, "data_collection_order": INT64}, "event.block", version=1, optional=True
)
"""A record's position in its transaction (`provide.transaction.metadata`)."""


def envelope(topic: str, row: Schema) -> Schema:
    """Return the schema of the values in a table's topic."""
    return struct(
        {
            "before": row,
            "after": row,
            "source": SOURCE,
            "transaction": BLOCK,
            "op": STRING,
            "ts_ms": _OPTIONAL_INT64,
            "ts_us": _OPTIONAL_INT64,
            "ts_ns": _OPTIONAL_INT64,
        },
        f"{topic}.Envelope",
        version=2,
    )


MESSAGE_KEY: Final = struct({"prefix": _OPTIONAL_STRING}, "io.debezium.connector.postgresql.MessageKey", version=1)
_MESSAGE: Final = struct(
    {"prefix": _OPTIONAL_STRING, "content": optional(BYTES)}, "io.debezium.connector.postgresql.Message", version=1
)
MESSAGE: Final = struct(
    {"op": STRING, "ts_ms": _OPTIONAL_INT64, "source": SOURCE, "transaction": BLOCK, "message": _MESSAGE},
    "io.debezium.connector.postgresql.MessageValue",
    version=1,
)
MESSAGE_CONTENT: Final = _MESSAGE
TRANSACTION_KEY: Final = struct({"id": STRING}, "io.debezium.connector.common.TransactionMetadataKey", version=1)
COLLECTION: Final = struct(
    {"data_collection": STRING, "event_count": INT64}, "event.collection", version=1, optional=True
)
TRANSACTION: Final = struct(
    {
        "status": STRING,
        "id": STRING,
        "event_count": _OPTIONAL_INT64,
        "data_collections": array(COLLECTION, optional=True),
        "ts_ms": INT64,
    },
    "io.debezium.connector.common.TransactionMetadataValue",
    version=1,
)
HEARTBEAT_KEY: Final = struct({"serverName": STRING}, "io.debezium.connector.common.ServerNameKey", version=1)
HEARTBEAT: Final = struct({"ts_ms": INT64}, "io.debezium.connector.common.Heartbeat", version=1)
