"""Sets the level of a feature of a broker."""

from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient


def set_transaction_version(connection: Connection, level: int) -> None:
    set_feature(connection, "transaction.version", level)


def set_feature(connection: Connection, name: str, level: int) -> None:
    client = PythonClient(**connection.kafka_python())
    try:
        now = client.describe_features()[name].get("finalized", (0, 0))[1]
        if now != level:
            kind = "UPGRADE" if level > now else "SAFE_DOWNGRADE"
            client.update_features({name: (kind, level)})
    finally:
        client.close()
