"""On the real broker: what a command answers whose leader loses its term before, and in the middle of, the commit."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Retriable
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.membership import GroupMembership
from ringfence.fencing.leader.term import Term, TopicRecord
from ringfence.fencing.topics.config_records import ConfigRecord, ConnectorRecord
from ringfence.fencing.transactions.producer import Producer
from tests.support.engine_cluster import C, Cluster
from tests.support.waiting import eventually

Commit = Callable[[Producer, Deadline], None]


def lose_the_term(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, written: bool) -> None:
    """The write of a connector's record loses its term: after its offsets are sent, or right after its commit."""
    real_commit, real_send = Producer.commit, Producer.send_offsets
    real_transaction = Term._transaction
    meant: list[bool] = []

    def transaction(
        self: Term, records: Sequence[ConfigRecord | TopicRecord], deadline: Deadline, expected: int | None = None
    ) -> list[LogRecord]:
        meant[:] = [any(isinstance(record, ConnectorRecord) for record in records)]
        return real_transaction(self, records, deadline, expected)

    def lose(producer: Producer) -> None:
        if meant != [True]:
            return  # the leader has things of its own to write
        term = cluster.leader._term
        assert term is not None
        term._over = "another worker leads"
        producer._gave_up = True
        monkeypatch.undo()
        raise Retriable("the connection broke", "_TRANSPORT")

    def commit(self: Producer, deadline: Deadline) -> None:
        real_commit(self, deadline)
        lose(self)

    def send(self: Producer, *arguments: object) -> None:
        real_send(self, *arguments)  # type: ignore[arg-type]
        lose(self)

    monkeypatch.setattr(Term, "_transaction", transaction)
    if written:
        monkeypatch.setattr(Producer, "commit", commit)
    else:
        monkeypatch.setattr(Producer, "send_offsets", send)


@pytest.mark.parametrize("written", [False, True])
def test_only_what_was_surely_not_written_may_be_sent_again(
    cluster: Cluster, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, *, written: bool
) -> None:
    config = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers")}
    lose_the_term(cluster, monkeypatch, written=written)
    answer = cluster.command("create", {"config": config})
    if written:
        assert (answer["status"], answer["retry"], answer["passing"]) == (500, False, False)
        assert "Whether the request was carried out is unknown" in str(answer["message"])
    else:
        assert (answer["status"], answer["retry"], answer["passing"]) == (409, True, True)
    # It still owns the partition, and begins another term: which of the two it was stands in the config topic.
    eventually(lambda: cluster.leader.ready.is_set(), 30, "another term")
    assert (C in cluster.leader.state()) is written
    again = cluster.command("create", {"config": config})
    assert (again["ok"], again.get("status")) == ((False, 409) if written else (True, None))


def test_commands_during_rebalances_are_carried_out_or_may_be_sent_again(
    cluster: Cluster, unique: Callable[[str], str]
) -> None:
    config = {"name": C, "connector.class": "VerifiableSource", "topic": unique("numbers")}
    assert cluster.command("create", {"config": config})["ok"] is True
    stop = threading.Event()

    def come_and_go() -> None:
        for round_ in range(2):
            seat = GroupMembership(
                cluster.connection, cluster.config.group_id, cluster.config.config_topic,
                f"other@{round_}", lambda _: None, lambda: None, session_timeout_ms=6000,
            )  # fmt: skip
            until = time.monotonic() + 2
            while time.monotonic() < until:
                seat.poll(0.05)
            seat.close()
        stop.set()

    other = threading.Thread(target=come_and_go)
    other.start()
    answers = []
    while not stop.is_set():
        for kind in ("pause", "resume"):
            began = time.monotonic()
            answer = cluster.command(kind)
            answers.append(answer)
            while answer.get("passing") and time.monotonic() - began < 30:  # as `dispatch` does
                time.sleep(0.05)
                answer = cluster.command(kind)
            assert answer["ok"] is True, answer
    other.join(30)
    bounced = [answer for answer in answers if not answer["ok"]]
    assert len(bounced) < len(answers)
    assert all((answer["status"], answer["retry"]) == (409, True) for answer in bounced), bounced
