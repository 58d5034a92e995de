"""A watched topic is lost only where brokers say so twice; no answer is no loss."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ringfence.fencing.kafka import topic_admin
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import EVERY_SECONDS, TopicWatch

GONE, AWAY = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TIMED_OUT


class Broker:
    """Answers each question with what `says` holds for the topic: an id, an error's code, or nothing yet."""

    def __init__(self) -> None:
        self.says: dict[str, str | int | None] = {"config": "a", "offsets": "b"}
        self.asked = 0

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        self.asked += 1
        return {name: self._answer(self.says[name]) for name in ("config", "offsets")}

    def _answer(self, says: str | int | None) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(says, str):
            future.set_result(SimpleNamespace(topic_id=says))
        elif says is not None:
            future.set_exception(KafkaException(KafkaError(says)))
        return future


class Scene:
    """A watch over two topics, and its clock."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.watch = TopicWatch(Connection("b:9092"), {"config": "a", "offsets": "b"})
        self.now = 100.0

    def look(self, times: int = 1) -> dict[str, str | None]:
        """What is known after so many answers."""
        for _ in range(times):
            self.now += EVERY_SECONDS
            self.watch.look(self.now)
            found = self.watch.look(self.now)
        return dict(found)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    broker = Broker()
    monkeypatch.setattr(topic_admin, "admin_client", lambda _: broker)
    return Scene(broker)


def test_topics_with_their_ids_are_not_lost(scene: Scene) -> None:
    assert scene.look(5) == {}
    assert scene.broker.asked == 5


@pytest.mark.parametrize(("says", "found"), [("other", "other"), (GONE, None)])
def test_a_loss_is_told_once_it_was_seen_twice(scene: Scene, says: str | int, found: str | None) -> None:
    scene.broker.says["config"] = says
    assert scene.look() == {}, "a broker that has just started may not know each topic yet"
    assert scene.look() == {"config": found}


def test_what_changes_from_look_to_look_is_not_certain(scene: Scene) -> None:
    for says in (GONE, "other", GONE, "a"):
        scene.broker.says["config"] = says
        assert scene.look() == {}
    scene.broker.says["config"] = GONE
    assert scene.look() == {}, "it was there in between"


def test_no_answer_is_no_loss(scene: Scene) -> None:
    scene.broker.says.update(config=AWAY, offsets=AWAY)
    assert scene.look(5) == {}
    scene.broker.says.update(config=GONE)
    assert scene.look(5) == {}, "half an answer"


def test_a_broker_that_does_not_answer_is_not_waited_for_nor_asked_again(scene: Scene) -> None:
    scene.broker.says["config"] = None
    assert scene.look(3) == {}
    assert scene.broker.asked == 1


def test_it_asks_every_few_seconds(scene: Scene) -> None:
    for _ in range(100):
        scene.now += EVERY_SECONDS / 10
        scene.watch.look(scene.now)
    assert 5 <= scene.broker.asked <= 10
