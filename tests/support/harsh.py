"""A broker with Kafka's own authorizer, that forgets idle transactional ids and ends old transactions soon."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ringfence.fencing.kafka.connection import Connection
from ringfence.local.kafka import EmbeddedKafka
from tests.support.broker import login, running_kafka, with_users
from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Harsh:
    """`root` may do everything; the others may do what is granted."""

    kafka: EmbeddedKafka

    def login(self, user: str) -> dict[str, str]:
        """librdkafka's settings."""
        return {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": user,
        }

    def worker(self, user: str) -> dict[str, str]:
        """The same as a worker's environment."""
        return {
            "CONNECT_BOOTSTRAP_SERVERS": self.kafka.bootstrap,
            "CONNECT_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "CONNECT_SASL_MECHANISM": "PLAIN",
            "CONNECT_SASL_JAAS_CONFIG": login(user),
        }

    def connection(self, user: str = "root") -> Connection:
        return Connection(self.kafka.bootstrap, self.login(user))

    def grant(self, user: str, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        """On every resource whose name begins with `name`; in force when this returns."""
        admin = AdminClient(self.connection().librdkafka())  # type: ignore[arg-type]
        prefixed, allow = ResourcePatternType.PREFIXED, AclPermissionType.ALLOW
        wanted: list[Any] = [
            AclBinding(kind, name, prefixed, f"User:{user}", "*", operation, allow) for operation in operations
        ]
        for future in admin.create_acls(wanted).values():
            future.result(30)
        # The controller has answered; the broker, which checks, follows it.
        which = AclBindingFilter(
            kind, name, ResourcePatternType.PREFIXED, f"User:{user}", "*", AclOperation.ANY, AclPermissionType.ANY
        )
        granted = {operation.value for operation in operations}
        eventually(
            lambda: granted <= {found.operation.value for found in admin.describe_acls(which).result(10)},
            30,
            "the broker knows the grant",
        )


@contextmanager
def harsh_kafka(root: Path) -> Iterator[Harsh]:
    """Four seconds stand for the seven days after which an idle id is forgotten."""
    soon = {
        "transactional_id_expiration_ms": "4000",
        "transaction_remove_expired_transaction_cleanup_interval_ms": "500",
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": "300",
    }
    with running_kafka(root, **with_users("fencer", "leader"), **soon) as kafka:
        yield Harsh(kafka)
