"""Bad records on the real broker: each is in the data or in the dead letter topic, once, whatever happens in the
meantime.
"""

from collections.abc import Mapping

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import topic_identity, topic_setting
from tests.guarantees.stage import Counting, Script, Stage
from tests.support.picky import Picky, numbers
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    "worker",
    [{}, {"exactly.once.source.support": "disabled", "offset.flush.interval.ms": "200"}],
    ids=["enabled", "disabled"],
)
def test_a_bad_record_is_kept_beside_the_good_ones(stage: Stage, worker: Mapping[str, str]) -> None:
    letters = f"{stage.data}-bad"
    config = {
        "topic": stage.data,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.max.message.bytes": "1048600",
    }

    def explode(task: Counting) -> None:
        if task.polls == 10:
            raise RuntimeError("the process dies here")

    stage.configure(config)
    stage.count()
    first = stage.start(Script(before_poll=explode), config, convert=Picky(), worker=worker)
    assert "dies here" in str(first.ended().trace)
    second = stage.start(Script(limit=2000), config, 2, convert=Picky(), worker=worker)
    eventually(lambda: stage.offset() == 2000, 60, "the last source offset", pause=0.1)
    second.run.end()
    second.ended()
    good, bad = numbers(stage, stage.data), numbers(stage, letters)
    wanted = list(range(2000))
    if worker:  # at least once
        good, bad = sorted(set(good)), sorted(set(bad))
    assert good == [number for number in wanted if number % 7]
    assert bad == [number for number in wanted if number % 7 == 0]
    if not worker:
        assert stage.counted() == (len(good), 0, len(bad))
    assert topic_setting(stage.connection, letters, "max.message.bytes", Deadline.after(30)) == "1048600"


def test_a_topic_is_made_by_its_rules_before_the_first_record(stage: Stage) -> None:
    made = f"{stage.data}-made"
    config = {
        "topic": made,
        "topic.creation.groups": "mine",
        "topic.creation.mine.include": f"{stage.data}.*",
        "topic.creation.mine.partitions": "4",
        "topic.creation.mine.segment.bytes": "20000000",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "-1",
    }
    stage.configure(config)
    stage.count()
    attempt = stage.start(Script(limit=100), config)
    eventually(lambda: stage.offset() == 100, 60, "the last source offset", pause=0.1)
    attempt.run.end()
    attempt.ended()
    assert topic_identity(stage.connection, made, Deadline.after(30))[1] == [0, 1, 2, 3]
    assert topic_setting(stage.connection, made, "segment.bytes", Deadline.after(30)) == "20000000"
    assert sorted(numbers(stage, made)) == list(range(100))


def test_with_the_workers_no_the_rules_are_not_used(stage: Stage) -> None:
    topic = f"{stage.data}-auto"
    config = {
        "topic": topic,
        "topic.creation.default.partitions": "4",
        "topic.creation.default.replication.factor": "-1",
    }
    stage.configure(config)
    stage.count()
    stage.start(Script(limit=10), config, worker={"topic.creation.enable": "false"})
    eventually(lambda: stage.offset() == 10, 60, "the last source offset", pause=0.1)
    assert topic_identity(stage.connection, topic, Deadline.after(30))[1] == [0], "the broker has made it"


def test_a_topic_that_cannot_be_fails_the_task_at_once(stage: Stage) -> None:
    config = {"topic": "flights of today", "errors.tolerance": "all"}
    stage.configure(config)
    stage.count()
    ended = stage.start(Script(limit=10), config).ended()
    assert ended.trace is not None
    assert "cannot be a topic" in ended.trace
    assert "Correct the setting" in ended.trace
    assert stage.offset() == 0
