"""On the real broker, with the real plugin process: letters as a page shows them, and replays through the chain now."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ringfence.engine.plugins import PluginHost
from ringfence.engine.queries.dead_letters import AT_ONCE, DeadLetters
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig
from tests.guarantees.stage import Counting, Script, Stage
from tests.support.broker import Broker
from tests.support.picky import Picky
from tests.support.waiting import eventually

LIMIT = 15
BAD = ["0", "7", "14"]


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("letters"))
    yield made
    made.close()


def test_letters_are_shown_and_go_through_the_chain_as_it_is_now(stage: Stage, host: PluginHost) -> None:
    bad, routed = f"{stage.data}-bad", f"{stage.data}-routed"
    config = {
        "name": str(stage.connector),
        "connector.class": "VerifiableSource",
        "topic": stage.data,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": bad,
    }
    stage.configure(config)
    stage.count()
    stage.start(Script(limit=LIMIT), config, kind=Counting, convert=Picky()).finish_after(LIMIT)
    names = {"config": stage.topics.config, "offset": stage.topics.offsets, "status": stage.topics.status}
    settings = {f"{role}.storage.topic": name for role, name in {**names, "events": stage.topics.events}.items()}
    where = {"bootstrap.servers": stage.connection.bootstrap, "group.id": stage.group}
    letters = DeadLetters(host, WorkerConfig({**where, **settings}))

    def page(stage_: str = "", by: str = "") -> Any:
        return letters.page(config, stage_, by, None, Deadline.after(30), committed_only=True)

    def replay(chosen: dict[str, Any], **more: str) -> Any:
        mapper = {"value.converter": "ByteArrayConverter", **more}
        return letters.replay({**config, **mapper}, chosen, {"by": "ann"}, [], Deadline.after(60))

    def states() -> dict[str, str]:
        return {base64.b64decode(each["value"]).decode(): each["replayed"] for each in page()["letters"]}

    eventually(lambda: len(page()["letters"]) == len(BAD), 30, "the letters")
    first = page("VALUE_CONVERTER", "ValueError")["letters"][0]
    assert (first["stage"], first["class"], first["error"]) == ("VALUE_CONVERTER", "Plain", "builtins.ValueError")
    assert "refused it: ValueError: seven divides it" in first["message"]
    assert (first["topic"], first["task"]) == (stage.data, "0")
    assert (first["source_partition"], first["source_offset"]) == ('{"source":"numbers"}', '{"next":15}')
    assert "Traceback" in first["trace"]
    assert (first["seen"], first["headers"]) == ("committed", [])
    assert page("KEY_CONVERTER")["letters"] == []

    into = {"transforms": "t", "transforms.t.type": "RegexRouter", "transforms.t.regex": ".*"}
    into["transforms.t.replacement"] = routed
    done = replay({"places": [[first["partition"], first["offset"]]]}, **into)
    assert [(each["became"], each["topic"], each["why"]) for each in done["results"]] == [("written", routed, "")]
    rest = replay({"stage": "VALUE_CONVERTER", "class": ""}, **into)
    assert [each["became"] for each in rest["results"]] == ["written", "written"]
    assert (rest["topic"], rest["left"]) == (bad, 0)
    eventually(lambda: states() == dict.fromkeys(BAD, "yes"), 30, "the marks")
    log = TopicLog(stage.connection, routed)
    try:
        assert [record.value for record in log.read_to_end(Deadline.after(30))] == [b"14", b"0", b"7"]
    finally:
        log.close()

    for _ in range(AT_ONCE):
        letters._places.enter(None)
    with pytest.raises(Refusal, match="replays are under way"):
        replay({"stage": "", "class": ""})
    with pytest.raises(Refusal, match="keeps no dead letters"):
        letters.page({"name": "c"}, "", "", None, Deadline.after(30), committed_only=True)
