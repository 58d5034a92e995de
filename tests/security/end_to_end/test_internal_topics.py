"""The platform's own topics are nobody's target or source: not by name, and not by a transform."""

import json
from pathlib import Path

import pytest

from ringfence.engine.browsing.records import last_records
from ringfence.engine.plugins import PluginHost
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.queries.dead_letters import DeadLetters
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import end_offsets
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig
from tests.security.end_to_end.site import Site
from tests.security.readers import READERS
from tests.support.names import unique
from tests.support.plugin_hosts import PATIENCE
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)

FILE = "FileStreamSource"
DEAD_LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.replication.factor": "1"}


@pytest.fixture(scope="module")
def victim(site: Site) -> tuple[str, str]:
    """Another team's connector, and its own offsets topic."""
    name, offsets = unique("victim"), unique("victim-offsets")
    config = {"connector.class": "VerifiableSource", "topic": unique("t"), "throughput": "50"}
    site.boss.create(name, {**config, "tasks.max": "1", "offsets.storage.topic": offsets})
    site.running(name)
    return name, offsets


def end(site: Site, topic: str) -> int:
    _, partitions = topic_identity(site.up.connection, topic, Deadline.after(30))
    return sum(end_offsets(site.up.connection, topic, partitions, Deadline.after(30)).values())


def test_a_configuration_that_names_one_is_refused(site: Site, victim: tuple[str, str], lines: Path) -> None:
    workers = ["connect-configs", "connect-offsets", "connect-status", "connect-events"]
    base = {"connector.class": FILE, "file": str(lines)}
    for topic in (*workers, "__consumer_offsets", "__transaction_state", victim[1]):
        assert "to which connectors must not write" in site.refused(**base, topic=topic)
        letters = {"errors.deadletterqueue.topic.name": topic, **DEAD_LETTERS}
        assert "to which connectors must not write" in site.refused(**base, topic="team-a-lines", **letters)
    for topic in ("connect-configs", "connect-status", "connect-events", "__mine"):
        assert topic in site.refused(**base, topic="team-a-lines", **{"offsets.storage.topic": topic})


def test_a_transform_that_leads_there_fails_the_task(site: Site, victim: tuple[str, str], lines: Path) -> None:
    """The forged configuration of the victim, its forged source offset, and a broken transaction log."""
    name, offsets = victim
    before = site.boss.expect(200, "GET", f"/connectors/{name}/config")
    site.boss.expect(204, "PUT", f"/connectors/{name}/stop")
    stood = end(site, offsets)
    for target, what in (
        ("connect-configs", "the workers' config topic"),
        ("connect-offsets", "the workers' offsets topic"),
        ("__transaction_state", "a topic of Kafka's own"),
        (offsets, "the offsets topic of a connector"),
    ):
        attacker = site.create(
            site.editor,
            **{"connector.class": FILE, "file": str(lines), "topic": "team-a-lines"},
            **{"offsets.storage.topic": unique("team-a-offsets")},  # else its own offsets topic was refused, no other
            **{"transforms": "hoist,key,take,route", "transforms.hoist.type": "HoistField$Value"},
            **{"transforms.hoist.field": "f", "transforms.key.type": "ValueToKey", "transforms.key.fields": "f"},
            **{"transforms.take.type": "ExtractField$Key", "transforms.take.field": "f"},
            **{"transforms.route.type": "RegexRouter", "transforms.route.regex": ".*"},
            **{"transforms.route.replacement": target},
        )
        trace = site.failure(attacker)
        assert f"{target} is {what}" in trace
        site.editor.expect(204, "DELETE", f"/connectors/{attacker}")
    assert end(site, offsets) == stood
    assert site.boss.expect(200, "GET", f"/connectors/{name}/config") == before


@pytest.mark.parametrize("reader", READERS)
def test_they_are_no_source_either(site: Site, reader: str) -> None:
    source = {"connector.class": reader, "tasks.max": "1", "replication.factor": "1"}
    source |= {f"{side}.cluster.bootstrap.servers": site.up.bootstrap for side in ("source", "target")}
    # Another name of the same broker: what counts is the cluster's id.
    source["source.cluster.bootstrap.servers"] = f"localhost:{site.up.kafka_port}"
    assert "which connectors do not read" in site.refused(**source, topics="connect-configs")
    name = unique("team-a")
    body = {"config": {**source, "name": name, "topics": "connect-.*, .*consumer_offsets"}}
    answer = site.editor.started("POST", "/api/v1/preview", body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["records"] == []
    assert answer.json()["tasks"] == 0


def test_the_records_of_one_are_shown_to_nobody(site: Site) -> None:
    """A connector of an earlier version may have written there, or have its dead letters there."""
    worker = WorkerConfig.from_environment(site.up.kafka_variables)
    access, plugins = TopicRules(worker).access("team-a-old"), PluginHost(call_seconds=PATIENCE)
    try:
        for topic in ("connect-configs", "__consumer_offsets"):
            config = {"name": "team-a-old", "errors.deadletterqueue.topic.name": topic}
            with pytest.raises(Refusal, match="its records are not shown"):
                last_records(topic, config, worker, access, Deadline.after(10), committed_only=True)
            with pytest.raises(Refusal, match="its records are not shown"):
                DeadLetters(plugins, worker).page(config, "", "", None, Deadline.after(10), committed_only=True)
    finally:
        plugins.close()


def test_a_session_key_that_cannot_be_read_stops_nothing(site: Site, lines: Path) -> None:
    """Whoever may write the config topic can spoil it; the leader makes another."""
    for garbage in (b"garbage", b"{}", b'{"key":"?","algorithm":"HmacSHA256","creation-timestamp":9999999999999}'):
        producer = PlainProducer(site.up.connection)
        producer.write("connect-configs", [(b"session-key", garbage)], Deadline.after(20))
        producer.close()
        name = site.create(site.editor, **{"connector.class": FILE, "file": str(lines), "topic": "team-a-lines"})
        site.running(name)
        assert site.boss.call("GET", "/health").status_code == 200
        site.editor.expect(204, "DELETE", f"/connectors/{name}")


def test_a_foreign_record_in_the_config_topic_is_told(site: Site, lines: Path) -> None:
    """With the workers' own login, which ACLs do not stop: it counts, and the log and the audit trail say so."""
    config = {"connector.class": FILE, "file": str(lines), "topic": "team-a-lines"}
    name = site.create(site.editor, **config)
    site.running(name)
    forged = json.dumps({"properties": {**config, "name": name, "tasks.max": "1", "topic": "team-a-forged"}}).encode()
    producer = PlainProducer(site.up.connection)
    producer.write("connect-configs", [(f"connector-{name}".encode(), forged)], Deadline.after(20))
    producer.close()

    def told() -> bool:
        found = site.boss.expect(200, "GET", "/api/v1/audit?action=write+to+the+config+topic")
        return f"key connector-{name}: no leader of this cluster wrote that record" in json.dumps(found)

    eventually(told, 60, "the audit trail says so", pause=0.3)

    def alarmed() -> bool:
        found = site.boss.expect(200, "GET", "/api/v1/alerts/incidents?kind=foreign-record")["results"]
        assert [one["connector"] for one in found].count(name) == 1, found
        return True

    eventually(alarmed, 30, "the first start's rule opens an incident", pause=0.3)
    log = site.up.log("worker-1")
    assert log.count(f"key connector-{name}: no leader of this cluster wrote") == 1, "once, and none of our own"
    assert log.count("no leader of this cluster wrote") == log.count("(it has no stamp)")
    site.editor.expect(204, "DELETE", f"/connectors/{name}")
