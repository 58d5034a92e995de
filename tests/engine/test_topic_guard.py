"""What a worker does where a topic is lost: it ends, except where the events topic alone is, which is made again."""

import threading
from collections.abc import Mapping

import pytest

from ringfence.engine import platform_topics
from ringfence.engine.platform_topics import TopicGuard
from ringfence.fencing.errors import Retriable, TopicLost
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.topic_ids import CONFIG, EVENTS, OFFSETS, STATUS, Topic, TopicIds
from ringfence.worker_config import WorkerConfig

IDS = TopicIds(1, {role: Topic(f"the-{role}", f"id-{role}") for role in (CONFIG, OFFSETS, STATUS, EVENTS)})
CONNECTION = Connection("b:9092")


class Scene:
    """A guard whose watch says what `looks` holds, one look after the other; then nothing, and it is stopped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: list[Mapping[str, str | None] | Exception] = []
        self.watched: list[set[str]] = []
        self.told: list[str] = []
        self.made: list[str] = []
        self.ended = 0
        self._stop = threading.Event()
        scene = self

        class Watch:
            def __init__(self, connection: Connection, expected: Mapping[str, str]) -> None:
                scene.watched.append(set(expected))

            def look(self, now: float) -> Mapping[str, str | None]:
                if not scene.looks:
                    scene._stop.set()
                    return {}
                found = scene.looks.pop(0)
                if isinstance(found, Exception):
                    raise found
                return found

        monkeypatch.setattr(platform_topics, "TopicWatch", Watch)
        monkeypatch.setattr(platform_topics, "_TICK_SECONDS", 0.0)
        monkeypatch.setattr(platform_topics, "_tell", self.told.append)
        monkeypatch.setattr(
            platform_topics, "create_topics", lambda _c, specs, _d: self.made.extend(s.name for s in specs)
        )
        self.guard = TopicGuard(WorkerConfig.from_environment({}), CONNECTION, "i")

    def watch(self, *looks: Mapping[str, str | None] | Exception) -> None:
        self.looks = list(looks)
        self.guard.watch(IDS, self._stop, self._end)

    def _end(self) -> None:
        self.ended += 1


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.mark.parametrize("role", [CONFIG, OFFSETS])
@pytest.mark.parametrize("found", [None, "another"])
def test_a_lost_topic_ends_the_worker_and_is_told(scene: Scene, role: str, found: str | None) -> None:
    scene.watch({}, {f"the-{role}": found})
    assert scene.ended == 1
    (told,) = scene.told
    assert f"the-{role}" in told


def test_another_status_topic_ends_the_worker_and_nobody_has_to_act(scene: Scene) -> None:
    scene.watch({"the-status": None})
    assert (scene.ended, scene.told, scene.made) == (1, [], [])


@pytest.mark.parametrize(("found", "made"), [(None, ["connect-events"]), ("another", [])])
def test_an_events_topic_is_made_again_and_the_others_are_watched_on(
    scene: Scene, found: str | None, made: list[str]
) -> None:
    scene.watch({"the-events": found}, {"the-config": None})
    assert scene.made == made
    assert scene.watched == [{f"the-{role}" for role in IDS.topics}, {"the-config", "the-offsets", "the-status"}]
    assert (scene.ended, len(scene.told)) == (1, 1)


def test_an_events_topic_beside_another_does_not_hide_its_loss(scene: Scene) -> None:
    scene.watch({"the-events": None, "the-offsets": None})
    assert (scene.ended, scene.made) == (1, [])


def test_a_watch_without_an_answer_goes_on(scene: Scene) -> None:
    scene.watch(Retriable("no broker answers"), {"the-config": None})
    assert scene.ended == 1


def test_a_start_waits_for_its_topics_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    alerts = threading.Event()
    answers: list[Exception | TopicIds] = [Retriable("no broker answers"), TopicLost("the config topic is gone"), IDS]

    def ensure(*_: object) -> TopicIds:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def watch_alone(_incarnation: str, over: threading.Event) -> None:
        if over.wait(30):
            alerts.set()

    monkeypatch.setattr(platform_topics, "ensure_topics", ensure)
    monkeypatch.setattr(platform_topics, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(platform_topics, "_tell", told.append)
    monkeypatch.setattr(platform_topics, "watch_alone", watch_alone)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert TopicGuard(WorkerConfig.from_environment({}), CONNECTION, "i").open(threading.Event()) == IDS
    assert told == ["the config topic is gone"]
    assert alerts.wait(10), "alerts are watched until it is over"


def test_a_start_gives_up_after_a_while_without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure(*_: object) -> TopicIds:
        raise Retriable("no broker answers")

    monkeypatch.setattr(platform_topics, "ensure_topics", ensure)
    monkeypatch.setattr(platform_topics, "_PATIENCE_SECONDS", 0.0)
    with pytest.raises(Retriable):
        TopicGuard(WorkerConfig.from_environment({}), CONNECTION, "i").open(threading.Event())
