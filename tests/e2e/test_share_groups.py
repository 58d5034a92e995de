"""A share group's connector as people use it: REST, three tasks on one partition, a pause, one task, moved offsets."""

from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.admin import TopicSpec, create_topics
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually


def settings(up: Up, topic: str, tasks: int) -> dict[str, str]:
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    return {
        "connector.class": "ShareGroupSource",
        "tasks.max": str(tasks),
        "topics": topic,
        "source.cluster.alias": "out",
        "source.cluster.bootstrap.servers": up.bootstrap,
        "target.cluster.bootstrap.servers": up.bootstrap,
        "share.lock.ms": "15000",
        "share.sweep.after.ms": "6000",
        "batch.size": "50",
        **{f"{part}.converter": converter for part in ("key", "value", "header")},
    }


def write(up: Up, topic: str, numbers: range) -> None:
    pen = Producer(up.connection.librdkafka(linger_ms=0, batch_num_messages=20))
    for number in numbers:
        pen.produce(topic, b"%d" % number)
    assert pen.flush(30) == 0


def visible(up: Up, topic: str) -> Counter[bytes]:
    reader = Consumer(up.connection.librdkafka(group_id="none", enable_partition_eof=True))
    found: Counter[bytes] = Counter()
    reader.assign([TopicPartition(topic, 0, 0)])
    while True:
        message = reader.poll(10)
        assert message is not None
        if message.error() is not None:
            break
        found[message.value() or b""] += 1
    reader.close()
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_queue_through_its_life(platform: Up) -> None:
    up, name = platform, unique("queue")
    topic, target = f"{name}-in", f"out.{name}-in"
    create_topics(up.connection, [TopicSpec(topic), TopicSpec(target)], Deadline.after(30))

    def await_records(count: int, times: int = 1) -> None:
        def there() -> bool:
            found = visible(up, target)
            return len(found) == count and found.total() >= count * times

        eventually(there, 90, f"{count} records, {times} times", pause=0.5)
        assert set(visible(up, target).values()) == {times}

    write(up, topic, range(500))
    refused = up.rest.call(
        "PUT",
        "/connector-plugins/ShareGroupSource/config/validate",
        {**settings(up, topic, 3), "name": name, "transaction.boundary": "interval"},
    ).json()
    assert refused["error_count"] == 1
    up.rest.create(name, settings(up, topic, 3))
    eventually(lambda: len(up.rest.status(name)["tasks"]) == 3, 60, "three tasks on one partition")
    await_records(500)
    up.rest.expect(202, "PUT", f"/connectors/{name}/pause")
    eventually(lambda: {task["state"] for task in up.rest.status(name)["tasks"]} == {"PAUSED"}, 60, "the pause")
    write(up, topic, range(500, 700))
    up.rest.expect(202, "PUT", f"/connectors/{name}/resume")
    await_records(700)
    up.rest.settled(200, "PUT", f"/connectors/{name}/config", settings(up, topic, 1))
    write(up, topic, range(700, 800))
    await_records(800)
    up.rest.settled(204, "PUT", f"/connectors/{name}/stop")
    (line,) = up.rest.expect(200, "GET", f"/connectors/{name}/offsets")["offsets"]
    assert set(line["partition"]) == {"topic_id", "partition"}
    assert line["offset"] == {"topic": topic, "low": 800, "done": []}
    refused = up.rest.call("PATCH", f"/connectors/{name}/offsets", {"offsets": [{**line, "offset": {"low": -1}}]})
    assert refused.status_code == 400
    moved = {"offsets": [{"partition": line["partition"], "offset": {"topic": topic, "low": 0}}]}
    up.rest.expect(200, "PATCH", f"/connectors/{name}/offsets", moved)
    up.rest.expect(202, "PUT", f"/connectors/{name}/resume")
    await_records(800, times=2)  # by the sweep: the share group has finished them
    up.rest.settled(204, "PUT", f"/connectors/{name}/stop")
    up.rest.expect(200, "DELETE", f"/connectors/{name}/offsets")
    assert up.rest.expect(200, "GET", f"/connectors/{name}/offsets") == {"offsets": []}
    up.rest.expect(202, "PUT", f"/connectors/{name}/resume")
    await_records(800, times=3)
    up.rest.settled(204, "DELETE", f"/connectors/{name}")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_group_is_moved_with_its_connectors_ledger(platform: Up) -> None:
    up, name = platform, unique("moved")
    topic, target = f"{name}-in", f"out.{name}-in"
    create_topics(up.connection, [TopicSpec(topic), TopicSpec(target)], Deadline.after(30))
    write(up, topic, range(200))
    up.rest.create(name, settings(up, topic, 2))
    eventually(lambda: len(visible(up, target)) == 200, 90, "all records", pause=0.5)
    groups = up.rest.expect(200, "GET", "/api/v1/share-groups")["results"]
    (group,) = [each["group"] for each in groups if each["connectors"] == [name]]
    offsets = f"/api/v1/share-groups/{group}/offsets"
    body = {"to": {"offset": 150}, "reason": "again"}
    assert up.rest.call("PATCH", offsets, body).status_code in (400, 409)
    told = up.rest.expect(200, "PATCH", offsets, {**body, "dry_run": True})
    assert "must be STOPPED" in told["refusal"]
    up.rest.settled(204, "PUT", f"/connectors/{name}/stop")
    empty = lambda: not up.rest.expect(200, "GET", f"/api/v1/share-groups/{group}")["members"]  # noqa: E731
    eventually(empty, 60, "nobody in the group", pause=0.5)
    done = up.rest.expect(200, "PATCH", offsets, body)
    assert (done["again"], done["skipped"], done["partitions"][0]["sure"]) == (50, 0, True)
    shown = up.rest.expect(200, "GET", offsets)
    assert (shown["ledger"][0]["low"], shown["partitions"][0]["start"]) == (150, 150)
    up.rest.expect(202, "PUT", f"/connectors/{name}/resume")
    eventually(lambda: visible(up, target).total() >= 250, 90, "the moved records", pause=0.5)
    found = visible(up, target)
    assert {int(value) for value, times in found.items() if times == 2} == set(range(150, 200))
    assert max(found.values()) == 2
    up.rest.settled(204, "DELETE", f"/connectors/{name}")
