"""A connector of Debezium's is taken over where it stands: nothing is lost, nothing comes twice."""

import json
import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from benchmarks.connect import ConnectWorker
from ringfence.connectors.api import ConnectorError, SourceRecord, Struct
from ringfence.connectors.builtin.postgres.offsets import DeliveredPosition, SharedPosition, read_delivered
from tests.postgres.debezium import PLUGIN
from tests.postgres.local import Database
from tests.support.broker import new_kafka
from tests.support.waiting import eventually

OFFSET = {"lsn_commit": 70, "lsn_proc": 90, "lsn": 90, "txId": 7, "ts_usec": 1, "messageType": "INSERT"}


def test_changes_up_to_the_position_are_skipped_in_its_transaction_only() -> None:
    found = SharedPosition(read_delivered(OFFSET))
    assert [found.skips(7, lsn, 1) for lsn in (80, 80, 90, 91)] == [True, True, True, False]
    assert not SharedPosition(DeliveredPosition(7, 90)).skips(8, 85, 1)
    shared = SharedPosition(DeliveredPosition(7, 90))
    assert shared.skips(7, 90, 4)
    with pytest.raises(ConnectorError, match=r"among rows of one COPY .*\(3 precede the COPY's rows\)"):
        shared.skips(7, 90, 5)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"lsn_commit": None}, "from a snapshot, or from the first transaction"),
        ({"txId": None}, "from a snapshot"),
        ({"incremental_snapshot_primary_key": "x"}, "incremental snapshot"),
    ],
)
def test_offsets_that_do_not_say_where_to_go_on_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConnectorError, match=said) as caught:
        read_delivered({**OFFSET, **changed})
    assert "stop it again" in str(caught.value)


def keys(records: list[SourceRecord]) -> Counter[int]:
    rows = [record for record in records if record.topic.endswith(".public.t")]
    return Counter(int(str(record.key["id"])) for record in rows if isinstance(record.key, Struct))


class Writer:
    """Transactions of 1 to 40 rows, and now and then one of 20,000, until it is ended."""

    def __init__(self, database: Database) -> None:
        self._dsn = f"host=127.0.0.1 port={database.server.port} user=ringfence dbname={database.name}"
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        choice = random.Random(4)
        with psycopg.connect(self._dsn) as connection:
            number = 0
            while not self._ending.wait(0.05):
                number += 1
                rows = 20_000 if number % 200 == 50 else choice.randint(1, 40)
                with connection.transaction():
                    connection.execute("INSERT INTO t (v) SELECT 'x' FROM generate_series(1, %s)", [rows])

    def end(self) -> None:
        self._ending.set()
        self._thread.join(60)


def read_ids(bootstrap: str, topic: str) -> Counter[int]:
    """As a read_committed consumer sees them."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True})
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        found: Counter[int] = Counter()
        while (message := reader.poll(30)) is not None and message.error() is None:
            found[json.loads(message.key() or b"")["id"]] += 1
        return found
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost_or_doubled_however_debezium_ended(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice: killed, where it may stand within a transaction, and stopped as one should."""
    monkeypatch.setattr("benchmarks.connect.READY_SECONDS", 240.0)
    database.execute("CREATE TABLE t (id serial PRIMARY KEY, v text)", "CREATE PUBLICATION dbz_publication FOR TABLE t")
    kafka = new_kafka(tmp_path)
    kafka.start()
    worker = ConnectWorker(tmp_path / "connect", kafka.bootstrap, (PLUGIN,), short_lived=True)
    try:
        writer = Writer(database)
        try:
            for number, end in enumerate((kill, stop)):
                prefix = f"moved{number}"
                worker.start()
                delete_all(worker)
                run_debezium(worker, database, prefix)
                topic = f"{prefix}.public.t"
                eventually(lambda topic=topic: count(kafka.bootstrap, topic) > 3000, 240, "records", pause=0.1)  # type: ignore[misc]
                end(worker, prefix)
                slot = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{database.name}_{prefix}'"
                eventually(lambda slot=slot: not database.value(slot), 60, "the slot to be free", pause=0.1)  # type: ignore[misc]
                offset = committed_offset(kafka.bootstrap, prefix)
                first = min(read_ids(kafka.bootstrap, topic))
                run = database.run(offset, slot_name=f"{database.name}_{prefix}", topic_prefix=prefix)
                database.await_all(run)
                run.stop()
                delivered = read_ids(kafka.bootstrap, topic) + keys(run.records)
                last = max(delivered)
                assert [key for key in range(first, last + 1) if delivered[key] != 1] == []
                assert keys(run.records)
        finally:
            writer.end()
    finally:
        worker.stop()
        kafka.kill()


def run_debezium(worker: ConnectWorker, database: Database, prefix: str) -> None:
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port),
        "database.user": "ringfence",
        "database.password": "none",
        "database.dbname": database.name,
        "topic.prefix": prefix,
        "slot.name": f"{database.name}_{prefix}",
        "snapshot.mode": "no_data",
        "exactly.once.support": "required",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    answer = httpx.put(f"{worker.url}/connectors/{prefix}/config", json=config, timeout=90)
    assert answer.status_code == 201, answer.text


def delete_all(worker: ConnectWorker) -> None:
    for name in httpx.get(f"{worker.url}/connectors", timeout=60).json():
        httpx.delete(f"{worker.url}/connectors/{name}", timeout=60).raise_for_status()


def count(bootstrap: str, topic: str) -> int:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        if topic not in reader.list_topics(timeout=10).topics:
            return 0
        return int(reader.get_watermark_offsets(TopicPartition(topic, 0), 10)[1])
    finally:
        reader.close()


def stop(worker: ConnectWorker, name: str) -> None:
    httpx.put(f"{worker.url}/connectors/{name}/stop", timeout=60).raise_for_status()

    def stopped() -> bool:
        state = httpx.get(f"{worker.url}/connectors/{name}/status", timeout=30).json()
        return state["connector"]["state"] == "STOPPED" and not state["tasks"]

    eventually(stopped, 90, "Debezium to stop", pause=0.5)


def kill(worker: ConnectWorker, _name: str) -> None:
    os.kill(worker.pid, signal.SIGKILL)
    worker.stop()


def committed_offset(bootstrap: str, connector: str) -> dict[str, Any]:
    """The connector's newest source offset, as the topic of Kafka Connect has it."""
    topic = "kafka-connect-offset"
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True})
    found: dict[str, Any] = {}
    try:
        partitions = reader.list_topics(topic, timeout=10).topics[topic].partitions
        reader.assign([TopicPartition(topic, each, 0) for each in partitions])
        ends = 0
        while ends < len(partitions) and (message := reader.poll(30)) is not None:
            if message.error() is not None:
                ends += 1
            elif json.loads(message.key() or b"[]")[:1] == [connector]:
                found = json.loads(message.value() or b"{}")
    finally:
        reader.close()
    return found
