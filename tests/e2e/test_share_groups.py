"""A share group's connector as people use it: REST, three tasks on one partition, a pause, one task, moved offsets."""

import os
import subprocess
import sys
from collections import Counter

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.share_groups import Answer, ShareMember, alter_share_group
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
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


def process(up: Up, name: str, *, records: int, tasks: int, **more: str) -> str:
    """Have a new connector of this name read so many records of `<name>-in`, and return its share group."""
    topic, target = f"{name}-in", f"out.{name}-in"
    create_topics(up.connection, [TopicSpec(topic), TopicSpec(target)], Deadline.after(30))
    write(up, topic, range(records))
    up.rest.create(name, {**settings(up, topic, tasks), **more})
    eventually(lambda: len(visible(up, target)) == records, 90, "all records", pause=0.5)
    eventually(lambda: up.rest.expect(200, "GET", f"/api/v1/connectors/{name}")["data_as_of_ms"] > 0, 30, "its age")
    groups = up.rest.expect(200, "GET", "/api/v1/share-groups")["results"]
    (group,) = [str(each["group"]) for each in groups if each["connectors"] == [name]]
    return group


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
    target = f"out.{name}-in"
    group = process(up, name, records=200, tasks=2)
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


def take(up: Up, group: str, topic: str, answer: Answer, times: int = 1) -> int:
    """Let a client read the first batch of a group. Returns how many records it got."""
    member = ShareMember(up.connection, group, [topic], "stranger", 20)
    taken = 0
    for _ in range(times):
        messages = eventually(lambda: member.poll(1.0), 60, "records of the group", pause=0.0)
        taken = len(messages)
        for message in messages:
            member.answer(message, answer)
        member.send_answers(10)
    member.close()
    return taken


def submit(up: Up, path: str, **fields: str) -> str:
    """Fill in a form of the console, and send it. The page that comes back."""
    with httpx.Client(base_url=up.rest.url, timeout=100, follow_redirects=True) as browser:
        assert browser.get(path).status_code == 200
        form = {**fields, "csrfmiddlewaretoken": browser.cookies["ringfence_csrf"]}
        answer = browser.post(path, data=form, headers={"Origin": up.rest.url, "Referer": f"{up.rest.url}{path}"})
    assert answer.status_code == 200, answer.text
    return answer.text


def share(up: Up, *arguments: str) -> str:
    """`ringfence share …`."""
    command = [sys.executable, "-m", "ringfence.cli", "share", *arguments]
    env = {**os.environ, "RINGFENCE_URL": up.rest.url}
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_act_by_api_console_and_command_line_on_a_group_of_somebody_else(platform: Up) -> None:
    up, group = platform, unique("strangers")
    topic, path, console = f"{group}-in", f"/api/v1/share-groups/{group}", f"/ui/share-groups/{group}"
    create_topics(up.connection, [TopicSpec(topic)], Deadline.after(30))
    write(up, topic, range(100))
    quick = {"auto.offset.reset": "earliest"}

    def begin() -> None:
        alter_share_group(up.connection, group, quick, Deadline.after(20))
        take(up, group, topic, Answer.ACCEPT)
        eventually(lambda: not up.rest.call("GET", path).json().get("members", 1), 60, "nobody in the group")

    def starts() -> list[int]:
        return [each["start"] for each in up.rest.expect(200, "GET", path)["partitions"]]

    begin()
    up.rest.expect(200, "PATCH", f"{path}/offsets", {"to": {"offset": 60}, "reason": "api"})
    assert starts() == [60]
    share(up, "alter", group, "--to-offset", "40", "--reason", "cli", "--yes")
    assert starts() == [40]
    submit(up, f"{console}/alter/?to=offset&at=20", reason="console", confirm=group)
    assert starts() == [20]
    setting, value = "share.delivery.count.limit", "7"
    up.rest.expect(200, "PATCH", f"{path}/settings", {"settings": {setting: value}, "reason": "api"})
    assert {"name": setting, "value": value, "own": True} in up.rest.expect(200, "GET", f"{path}/settings")["settings"]
    share(up, "set", group, f"{setting}=8", "--reason", "cli")
    submit(up, f"{console}/settings/", setting=setting, value="9", reason="console")
    assert {"name": setting, "value": "9", "own": True} in up.rest.expect(200, "GET", f"{path}/settings")["settings"]
    assert up.rest.expect(200, "GET", f"{path}/archived")["connectors"] == []
    refused = up.rest.call("POST", f"{path}/archived", {"reason": "api"})
    assert (refused.status_code, "No connector reads" in refused.text) == (409, True)
    assert f"/ui/share-groups/{group}/alter" in up.rest.call("GET", f"/ui/share-groups/{group}").text
    assert up.rest.call("GET", f"/ui/share-groups/{group}/timeline?topic={topic}&partition=0").status_code == 200
    for act in (
        lambda: up.rest.expect(200, "DELETE", f"{path}/offsets?topic={topic}&reason=api"),
        lambda: share(up, "delete-offsets", group, "--topic", topic, "--reason", "cli", "--yes"),
        lambda: submit(up, f"{console}/delete-offsets/?topic={topic}", reason="console", confirm=group),
    ):
        act()
        assert starts() == []
        begin()
    for act in (
        lambda: up.rest.expect(200, "DELETE", f"{path}?reason=api"),
        lambda: share(up, "delete", group, "--reason", "cli", "--yes"),
        lambda: submit(up, f"{console}/delete/", reason="console", confirm=group),
    ):
        act()
        assert up.rest.call("GET", path).status_code == 404
        begin()
    trail = up.rest.expect(200, "GET", "/api/v1/audit?limit=100")["results"]
    told = [each["message"] for each in trail if group in each["message"]]
    for who in ("api", "cli", "console"):
        assert sum(message.startswith(f"{who}.") for message in told) >= 4, told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_archived_records_are_processed_now_and_offsets_go_back_to_a_snapshot(platform: Up) -> None:
    """The sweep would come in an hour. What was forgotten by mistake is undone: nothing is processed again."""
    up, name = platform, unique("archived")
    topic, target = f"{name}-in", f"out.{name}-in"
    later = {"share.sweep.after.ms": "3600000", "share.delivery.limit": "2"}
    group = process(up, name, records=100, tasks=1, **later)
    path = f"/api/v1/share-groups/{group}"
    nobody = lambda: not up.rest.expect(200, "GET", path)["members"]  # noqa: E731
    up.rest.settled(204, "PUT", f"/connectors/{name}/stop")
    eventually(nobody, 60, "nobody in the group", pause=0.5)
    write(up, topic, range(100, 200))
    taken = take(up, group, topic, Answer.RELEASE, times=2)
    eventually(nobody, 60, "nobody in the group", pause=0.5)
    refused = up.rest.call("POST", f"{path}/archived", {"reason": "now"})
    assert (refused.status_code, "not running" in refused.text) == (409, True)
    up.rest.expect(202, "PUT", f"/connectors/{name}/resume")
    eventually(lambda: len(visible(up, target)) == 200 - taken, 90, "what is delivered", pause=0.5)
    assert "/process/" in up.rest.call("GET", f"/ui/share-groups/{group}").text
    assert up.rest.expect(200, "GET", f"{path}/archived")["waiting"] >= taken
    page = submit(up, f"/ui/share-groups/{group}/process", reason="now")
    assert "Requested: " in page
    eventually(lambda: len(visible(up, target)) == 200, 60, "archived records", pause=0.5)
    up.rest.settled(204, "PUT", f"/connectors/{name}/stop")
    up.rest.expect(200, "DELETE", f"/connectors/{name}/offsets")
    (snapshot, *_) = up.rest.expect(200, "GET", f"/api/v1/connectors/{name}/offset-snapshots")["results"]
    restored = f"/api/v1/connectors/{name}/offset-snapshots/{snapshot['number']}/restore"
    up.rest.settled(200, "POST", restored, {})
    (line,) = up.rest.expect(200, "GET", f"/connectors/{name}/offsets")["offsets"]
    assert line["offset"] == {"topic": topic, "low": 200, "done": []}
    up.rest.settled(
        200, "PUT", f"/connectors/{name}/config", {**settings(up, topic, 3), "share.sweep.after.ms": "3000"}
    )
    up.rest.expect(202, "PUT", f"/connectors/{name}/resume")
    write(up, topic, range(200, 300))
    eventually(lambda: len(visible(up, target)) == 300, 90, "what is new", pause=0.5)
    before = up.rest.status(name)
    up.rest.settled(200, "POST", f"/api/v1/connectors/{name}/fence", {"reason": "a round"})
    write(up, topic, range(300, 400))
    eventually(lambda: len(visible(up, target)) == 400, 90, "what came after the round", pause=0.5)
    assert before["tasks"]
    assert set(visible(up, target).values()) == {1}
    up.rest.settled(204, "DELETE", f"/connectors/{name}")
    assert up.rest.call("GET", f"/connectors/{name}/offsets").status_code == 404
