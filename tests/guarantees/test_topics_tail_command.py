"""`ringfence topics tail` shows what is committed, and nothing else."""

from collections.abc import Callable
from itertools import islice

import pytest
from confluent_kafka import Producer

from ringfence import cli
from ringfence.commands import topics
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.support.broker import Broker
from tests.support.transactions import await_markers


def test_committed_records_are_printed_and_followed(
    broker: Broker,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CONNECT_BOOTSTRAP_SERVERS", broker.bootstrap)
    topic, connection = unique("tail"), Connection(broker.bootstrap)
    create_topics(connection, [TopicSpec(topic, 1, 1)], Deadline.after(30))
    transactional_id = unique("tail")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)

    def send(*values: str, commit: bool = True) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, key="k")
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    send("first", "a\x1b[2J")
    send("aborted", commit=False)
    send("last")
    await_markers(connection, transactional_id)
    assert cli.main(["topics", "tail", topic, "--exit", "--last", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == ["0:1\tk\ta\\x1b[2J", "0:5\tk\tlast"]

    lines = topics._lines(connection, topic, 1, follow=True)
    assert next(lines).endswith("\tlast")
    send("aborted, too", commit=False)
    send("new", "newer")
    assert [line.rpartition("\t")[2] for line in islice(lines, 2)] == ["new", "newer"]

    assert cli.main(["topics", "tail", "no-such-topic", "--exit"]) == 1
    assert f"Topic no-such-topic cannot be read at {broker.bootstrap}" in capsys.readouterr().err
    assert cli.main(["topics", "tail", topic, "--commands"]) == 0
    assert f"-b {broker.bootstrap} -t {topic}" in capsys.readouterr().out
