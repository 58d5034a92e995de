"""A permission is revoked while a task writes: it fails with the reason, and nothing is lost or twice afterwards."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs export them by no name
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
)
from confluent_kafka.admin._resource import ResourceType

from ringfence.fencing.ids import task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.stage import Counting, Script, Stage
from tests.support.broker import running_kafka
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """Everything is allowed until it is denied."""
    with running_kafka(
        tmp_path_factory.mktemp("guarded"),
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        allow_everyone_if_no_acl_found="true",
    ) as kafka:
        yield kafka


class Permissions:
    """Those of everybody on one resource."""

    def __init__(self, bootstrap: str, kind: ResourceType, name: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._about = (kind, name, ResourcePatternType.LITERAL)

    def deny_writes(self) -> None:
        # The first ACL on a resource ends "allowed where there is none", so all else is allowed in words.
        allowed = AclBinding(*self._about, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW)
        denied = AclBinding(*self._about, "User:*", "*", AclOperation.WRITE, AclPermissionType.DENY)
        for future in self._admin.create_acls([allowed, denied]).values():
            future.result(30)

    def restore(self) -> None:
        gone = AclBindingFilter(*self._about, "User:*", "*", AclOperation.ANY, AclPermissionType.ANY)
        for future in self._admin.delete_acls([gone]).values():
            future.result(30)


def resources(stage: Stage) -> dict[str, tuple[ResourceType, str]]:
    return {
        "target": (ResourceType.TOPIC, stage.data),
        "offsets": (ResourceType.TOPIC, stage.topics.offsets),
        "id": (ResourceType.TRANSACTIONAL_ID, task_transactional_id(stage.group, stage.task)),
    }


@pytest.mark.parametrize("what", ["target", "offsets", "id"])
def test_nothing_is_lost_and_nothing_twice(guarded: EmbeddedKafka, unique: Callable[[str], str], what: str) -> None:
    stage = Stage(Connection(guarded.bootstrap), unique(f"revoked-{what}"))
    permissions = Permissions(guarded.bootstrap, *resources(stage)[what])

    def slowly(task: Counting) -> None:
        task.context.wait(0.02)

    config = {"name": "numbers", "topic": stage.data, "transaction.boundary": "poll"}
    stage.configure(config)
    stage.count()
    script = Script(before_poll=slowly)
    first = stage.start(script, config)
    stage.wait_for(500)
    permissions.deny_writes()
    try:
        outcome = first.ended(120)
        assert outcome.trace is not None
        assert "AUTHORIZATION" in outcome.trace.upper(), outcome.trace
        committed = stage.exact(500)
    finally:
        permissions.restore()
    with HangingProber(stage.connection) as prober:
        eventually(lambda: not prober.open_on([stage.data]), 70, "no transaction is open", pause=0.5)
    again = stage.start(script, config, attempt=2)
    stage.wait_for(committed + 300)
    again.finish_after(0)
    stage.exact(committed + 300)
    stage.close()
