"""A broker that asks for a login and denies what is not granted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.stores import COMPACTED_SOON
from ringfence.worker_config import WorkerConfig
from tests.support.broker import login, running_kafka, with_users

USERS = [f"u{number}" for number in range(16)]


GROUP, OFFSETS, DATA = "g", "offsets", "data"


IDS, TOPIC = ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC


ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


WRITE, READ, DESCRIBE, CREATE = AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE, AclOperation.CREATE


Acl = tuple[Any, str, Any, Any]
"""Resource type, name, operation, permission."""


@contextmanager
def guarded_worker(folder: Path) -> Iterator[WorkerConfig]:
    """A broker that asks for a login and denies what is not granted; the worker is its super user."""
    with running_kafka(folder, **with_users(*USERS), transaction_max_timeout_ms="120000") as kafka:
        config = WorkerConfig.from_environment(
            {
                "CONNECT_BOOTSTRAP_SERVERS": kafka.bootstrap,
                "CONNECT_GROUP_ID": GROUP,
                "CONNECT_OFFSET_STORAGE_TOPIC": OFFSETS,
                "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
                "CONNECT_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
                "CONNECT_SASL_MECHANISM": "PLAIN",
                "CONNECT_SASL_JAAS_CONFIG": login("root"),
            }
        )
        compacted = {"cleanup.policy": "compact"}
        topics = [
            TopicSpec(OFFSETS, config={**COMPACTED_SOON, **compacted}),
            TopicSpec(config.config_topic, config=compacted),
            TopicSpec(DATA),
            TopicSpec("not-compacted"),
            TopicSpec("narrow", config={"max.message.bytes": "300000"}),
        ]
        create_topics(config.connection(), topics, Deadline.after(30))
        yield config


def grant(worker: WorkerConfig, user: str, *acls: Acl) -> None:
    bindings = [
        AclBinding(type_, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)
        for type_, name, operation, permission in acls
    ]
    admin = AdminClient(worker.connection().librdkafka())  # type: ignore[arg-type]
    for future in admin.create_acls(bindings).values():
        future.result(10)
