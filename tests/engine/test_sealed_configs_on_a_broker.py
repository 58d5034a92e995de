"""Encryption of the config topic, on the real broker with real leaders: on, rotated, a wrong key, off again."""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ringfence.commands import keys
from ringfence.commands.keys import topic_counts
from ringfence.encryption import KEY_FILE, keyring, new_key
from ringfence.engine.leader.commands import FenceNow, Pause
from ringfence.engine.leader.commands.lifecycle import plan_resume
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Unreadable
from ringfence.fencing.topics.cluster_state import ClusterState, apply, mark_unreadable
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.recovery.backup import from_kafka
from ringfence.recovery.restore import has_no_connector, knows_connectors
from ringfence.requests.request import Refusal
from tests.support.broker import Broker
from tests.support.engine_cluster import C, Cluster
from tests.support.waiting import eventually

SECRET = "hunter22-of-the-source"

Begin = Callable[[bool], AbstractContextManager[Cluster]]


@pytest.fixture
def begin(broker: Broker, unique: Callable[[str], str], environment: Mapping[str, str]) -> Begin:
    """A worker of one cluster, with the encryption on or off; one at a time."""
    names = {part: unique(part) for part in ("config", "offset", "status", "events", "group")}

    @contextmanager
    def worker(encrypts: bool) -> Iterator[Cluster]:
        setting = {"CONNECT_CONFIG_STORAGE_ENCRYPTION_ENABLE": str(encrypts).lower()}
        made = Cluster(broker, names.__getitem__, environment, setting)
        made.start()
        try:
            yield made
        finally:
            made.close()

    return worker


def newest(cluster: Cluster) -> dict[bytes, bytes]:
    """What anybody reads who may read the topic, once Kafka has compacted it."""
    log = TopicLog(cluster.connection, cluster.config.config_topic)
    try:
        records = list(log.read_to_end(Deadline.after(30)))
    finally:
        log.close()
    return {record.key or b"": record.value or b"" for record in records}


def told(cluster: Cluster) -> Mapping[str, int]:
    """As `ringfence keys check` counts them, with the worker's settings in a file."""
    file = Path(str(keyring()._file)).with_name("worker.properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in cluster.config.settings.items()))
    return topic_counts(argparse.Namespace(config=file, data=None))


def test_secrets_leave_the_topic_while_no_task_starts_again(
    begin: Begin, key_file: Path, unique: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "name": C, "connector.class": "VerifiableSource", "topic": unique("numbers"), "source.note": SECRET,
        "tasks.max": "2",
    }  # fmt: skip
    with begin(False) as cluster:
        assert cluster.command("create", {"config": config})["ok"] is True
        eventually(lambda: cluster.leader.state().connector(C).runnable and cluster.placement(), 30, "it runs")
        before = cluster.leader.state().connector(C)
        assert SECRET.encode() in b"".join(newest(cluster).values())

    def unchanged(cluster: Cluster) -> None:
        now = cluster.leader.state().connector(C)
        assert (now.config, now.config_offset, now.commit) == (config, before.config_offset, before.commit)
        assert (now.tasks, now.runnable, now.unreadable) == (before.tasks, True, None)
        assert now.placements == before.placements, "a task was placed anew"

    def all_under(cluster: Cluster, key: str) -> None:
        eventually(lambda: set(told(cluster)) == {key}, 30, f"all is under {key or 'no key'}")
        unchanged(cluster)
        assert (SECRET.encode() in b"".join(newest(cluster).values())) == (not key)

    first = keyring().keys[0].id
    with begin(True) as cluster:  # switched on
        all_under(cluster, first)
        before = cluster.leader.state().connector(C)  # without a task's report, the leader may place tasks elsewhere
        old = key_file.read_text().splitlines()[-1]
        keys._write(key_file, [new_key(), old])  # while it runs, as `ringfence keys rotate` does
        second = keyring().keys[0].id
        assert second != first
        all_under(cluster, second)
        copy = from_kafka(cluster.connection, cluster.config, Deadline.after(30))
        assert copy.connectors[C].config == config

    kept = key_file.read_text()
    key_file.write_text(f"{new_key()}\n{old}\n")  # the key that is needed is lost
    keyring.cache_clear()
    with begin(True) as cluster:
        lost = cluster.leader.state().connector(C)
        assert f"under key {second}" in (lost.unreadable or "")
        assert KEY_FILE in (lost.unreadable or "")
        assert lost.commit == before.commit
        assert set(told(cluster)) == {second}, "what cannot be read was changed"
        with pytest.raises(Unreadable, match=second):
            from_kafka(cluster.connection, cluster.config, Deadline.after(30))
        assert not has_no_connector(cluster.connection, cluster.config, Deadline.after(30)), "a restore would write"
        assert SECRET not in str(cluster.events())

    key_file.write_text(kept)
    keyring.cache_clear()
    with begin(False) as cluster:  # switched off: Kafka Connect can read it again
        all_under(cluster, "")
        shown = json.loads(newest(cluster)[f"connector-{C}".encode()])
        assert shown["properties"] == config


def test_a_connector_that_cannot_be_read_is_neither_missing_nor_written_again() -> None:
    stale = apply(ClusterState(), 0, ConnectorRecord(C, {"topic": "old"}))
    stopped = apply(apply(stale, 1, TargetStateRecord(C, TargetState.STOPPED)), 2, CommitRecord(C, 0))
    lost = mark_unreadable(stopped, 3, C, "add the key")
    assert knows_connectors(mark_unreadable(ClusterState(), 0, C, "add the key"))
    assert not knows_connectors(ClusterState())
    for plan in (plan_resume(C, None), Pause(C).records, FenceNow(C, "").records):
        with pytest.raises(Refusal, match="add the key"):
            plan(lost)
        assert plan(stopped) is not None
