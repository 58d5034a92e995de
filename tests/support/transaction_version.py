"""Sets the version of a broker's transactions."""

from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient


def set_transaction_version(connection: Connection, level: int) -> None:
    client = PythonClient(**connection.kafka_python())
    try:
        now = client.describe_features()["transaction.version"].get("finalized", (0, 0))[1]
        if now != level:
            kind = "UPGRADE" if level > now else "SAFE_DOWNGRADE"
            client.update_features({"transaction.version": (kind, level)})
    finally:
        client.close()
