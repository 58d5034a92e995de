"""Limits what a client may write to a broker (KIP-13)."""

from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient

_Entry = AlterClientQuotasRequest.EntryData


def set_write_quota(connection: Connection, client_id: str, bytes_per_second: float) -> None:
    entry = _Entry(
        entity=[_Entry.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[_Entry.OpData(key="producer_byte_rate", value=bytes_per_second, remove=False)],
    )
    client = PythonClient(**connection.kafka_python())
    try:

        async def alter() -> int:
            answer = await client.send(AlterClientQuotasRequest(entries=[entry], validate_only=False))
            return int(answer.entries[0].error_code)

        assert client.run(alter) == 0
    finally:
        client.close()
