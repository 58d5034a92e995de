"""A record's trace context goes with it, and leads to the transaction that the record is in."""

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import Isolation, TopicLog
from tests.guarantees.batch_copies import counted, started
from tests.guarantees.copies import Copy, await_topic, committed, copy_settings
from tests.guarantees.stage import Stage
from tests.support.waiting import eventually

SAMPLED = f"00-{'1' * 32}-{'2' * 16}-01"
UNSAMPLED = f"00-{'3' * 32}-{'4' * 16}-00"


def samples(stage: Stage) -> list[dict[str, Any]]:
    log = TopicLog(stage.connection, stage.topics.events, isolation=Isolation.UNCOMMITTED)
    try:
        events = [json.loads(record.value or b"{}") for record in log.read_to_end(Deadline.after(60))]
    finally:
        log.close()
    return [each for event in events for each in event.get("traced", ())]


@pytest.mark.parametrize(
    ("records", "raw", "traced"),
    [(200, True, True), (3, True, True), (3, False, True), (3, True, False)],
    ids=["whole batches", "columns", "one by one", "nobody exports traces"],
)
def test_of_a_copied_topic(stage: Stage, records: int, raw: bool, traced: bool) -> None:
    topic, bootstrap = f"{stage.data}-from", stage.connection.bootstrap
    create_topics(stage.connection, [TopicSpec(topic), TopicSpec(f"here.{topic}")], Deadline.after(30))
    await_topic(stage, topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000, "compression.type": "lz4"})
    producer.list_topics(topic, 30)
    for number in range(records):
        context = SAMPLED if number == records // 2 else UNSAMPLED
        producer.produce(topic, b"v%d" % number * 20, headers=[("traceparent", context), ("tracestate", "a=1")])
    assert producer.flush(30) == 0
    with started(copy_settings(stage, topic)) as connector:
        (config,) = connector.task_configs(1)
    stage.configure(config)
    stage.count()
    copy = Copy(stage, config, 1, raw=raw, traced=traced)
    eventually(lambda: len(committed(bootstrap, f"here.{topic}")) == records, 60, "the copies", pause=0.1)
    whole = counted(copy).get("") == records
    assert copy.end().trace is None
    assert whole is (records == 200)
    assert committed(bootstrap, f"here.{topic}") == committed(bootstrap, topic)
    found = [(each["parent"], each["outcome"], each["records"] > 0) for each in samples(stage)]
    assert found == ([(SAMPLED, "committed", True)] if traced else [])
