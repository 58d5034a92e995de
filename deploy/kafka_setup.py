"""Make Kafka's users and their permissions: `python kafka_setup.py BOOTSTRAP ACCESS_FILE`, as often as you like.

Each user of the file gets its password from `KAFKA_<USER>_PASSWORD`, and exactly the permissions of the file: others
that it has are taken back. Logs in as `admin` by PLAIN. Ends with 1 and the reason where something could not be done.
"""

import os
import sys
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

_SECONDS = 30
_ITERATIONS = 8192
_RESOURCES = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
    "Cluster": ResourceType.BROKER,  # librdkafka's word for it
}
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "Alter": AclOperation.ALTER,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "ClusterAction": AclOperation.CLUSTER_ACTION,
}
_PERMISSIONS = {"allow": AclPermissionType.ALLOW, "deny": AclPermissionType.DENY}
_PATTERNS = {"literal": ResourcePatternType.LITERAL, "prefixed": ResourcePatternType.PREFIXED}


def parse(text: str) -> dict[str, list[AclBinding]]:
    """The bindings of each user. Raises ValueError with the number of a line that cannot be meant."""
    found: dict[str, list[AclBinding]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            user, permission, operations, resource, pattern, name = words
            found.setdefault(user, []).extend(
                AclBinding(
                    _RESOURCES[resource],
                    name,
                    _PATTERNS[pattern],
                    f"User:{user}",
                    "*",
                    _OPERATIONS[operation],
                    _PERMISSIONS[permission],
                )
                for operation in operations.split(",")
            )
        except (ValueError, KeyError) as error:
            raise ValueError(f"line {number}: {line.strip()!r} ({error})") from None
    return found


def passwords(users: dict[str, list[AclBinding]], environment: dict[str, str]) -> dict[str, str]:
    """Raises ValueError for one that is not there."""
    names = {user: f"KAFKA_{user.upper()}_PASSWORD" for user in ("admin", *users)}
    if missing := [name for name in names.values() if not environment.get(name)]:
        raise ValueError(f"{', '.join(missing)}: not set, see .env.example")
    return {user: environment[name] for user, name in names.items()}


def set_up(admin: AdminClient, users: dict[str, list[AclBinding]], words: dict[str, str]) -> None:
    """Raises KafkaException."""
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    changes: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, mechanism, words[user].encode()) for user in users
    ]
    for future in admin.alter_user_scram_credentials(changes, request_timeout=_SECONDS).values():
        future.result(_SECONDS)
    for user, wanted in users.items():
        which = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type] # any
            ResourcePatternType.ANY,
            f"User:{user}",
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        there = admin.describe_acls(which, request_timeout=_SECONDS).result(_SECONDS)
        # First what is new: a user that works goes on working.
        for future in admin.create_acls(wanted, request_timeout=_SECONDS).values():
            future.result(_SECONDS)
        stale = [binding for binding in there if binding not in wanted]
        for binding in stale:
            _take_back(admin, binding)
        print(f"{user}: {len(wanted)} permissions, {len(stale)} taken back", flush=True)


def _take_back(admin: AdminClient, one: AclBinding) -> None:
    exactly = AclBindingFilter(
        one.restype,
        one.name,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )
    for future in admin.delete_acls([exactly], request_timeout=_SECONDS).values():
        future.result(_SECONDS)


def main(bootstrap: str, access: Path) -> None:
    users = parse(access.read_text(encoding="utf-8"))
    words = passwords(users, dict(os.environ))
    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": words["admin"],
        }
    )
    set_up(admin, users, words)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except (ValueError, OSError, KafkaException) as problem:
        sys.exit(f"Kafka is not set up: {problem}")
