"""A canary for the private parts of kafka-python (`fencing.kafka.kafka_python_client`): real client, real broker."""

import ast
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError
from kafka.protocol.metadata import CoordinatorType, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from ringfence.fencing import kafka
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient
from tests.support.broker import Broker
from tests.support.waiting import eventually


def test_kafka_python_still_has_what_is_used_of_its_private_parts(broker: Broker, unique: Callable[[str], str]) -> None:
    client = PythonClient(**Connection(broker.bootstrap).kafka_python())

    def ask(work: Callable[[], Awaitable[Any]]) -> Any:
        async def call() -> Any:
            return await work()

        return client.run(call)

    def settled(work: Callable[[], Awaitable[Any]]) -> Any:
        """What a coordinator answers once its topic is there and read."""

        def attempt() -> tuple[Any] | None:
            try:
                return (ask(work),)
            except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
                return None

        (found,) = eventually(attempt, 30, "the coordinator to answer") or (None,)
        return found

    name = unique("canary")
    try:
        (node,) = client.broker_ids
        assert client.broker_version >= (2, 5)
        assert client.newest_version_of(InitProducerIdRequest) >= 3
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        assert [each.node_id for each in ask(lambda: client.send(request, node)).brokers] == [node]
        assert settled(lambda: client.ask_coordinators([name])) == {name: node}
        assert settled(lambda: client.ask_coordinators([name], key_type=CoordinatorType.TRANSACTION)) == {name: node}
        assert client._manager.cluster._coordinators
        client.forget_coordinators()
        assert not client._manager.cluster._coordinators
        assert isinstance(settled(client.ask_groups), list)
        assert name in settled(lambda: client.ask_group_offsets({name: None}))
        assert ask(client.ask_features)["group.version"]["finalized"]
    finally:
        client.close()


def test_only_the_adapter_uses_private_parts_of_kafka_python() -> None:
    own = {"_admin", "_client", "_net", "_closed"}
    for path in Path(kafka.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafka."):
                private = [part for part in (node.module or "").split(".") if part.startswith("_")]
                assert not private or path.name == "kafka_python_client.py", f"{path.name}: {node.module}"
            if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
                continue
            inner = node.value
            if isinstance(inner, ast.Attribute) and inner.attr in own:
                assert path.name == "kafka_python_client.py", f"{path.name}:{node.lineno} {node.attr}"
