"""Users that log in with SCRAM (KIP-554)."""

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors


def set_password(connection: Connection, user: str, password: str, iterations: int, deadline: Deadline) -> None:
    """Create the user for SCRAM-SHA-512, or give it this password. Raises `FencingError`."""
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, iterations)
    change = UserScramCredentialUpsertion(user, mechanism, password.encode())
    with kafka_errors(f"setting the password of Kafka's user {user}"):
        # Not one that is kept: its broker ends right after this.
        client = AdminClient(connection.librdkafka())  # type: ignore[arg-type]
        futures = client.alter_user_scram_credentials([change], request_timeout=max(1.0, deadline.remaining))
        futures[user].result(max(1.0, deadline.remaining))
