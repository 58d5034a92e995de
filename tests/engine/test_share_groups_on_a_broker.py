"""Share groups on the real broker: described, moved, refused while inhabited, and their stale leaders flushed."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Producer

from ringfence.engine.leader import share_group_acts
from ringfence.engine.leader.commands import ActOnShareGroup
from ringfence.engine.leader.commands.offsets import Done
from ringfence.engine.leader.commands.saving import plan_creation
from ringfence.engine.leader.share_group_acts import ShareGroupAct
from ringfence.engine.queries.share_groups import describe, find_states, find_timeline, foresee, list_all
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.client_pool import close_idle_clients
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import Answer, Message, ShareMember, alter_share_group, share_group_admin
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_ids
from ringfence.fencing.offsets.source_offsets import SourceOffset
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import TaskCountRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig
from tests.support.broker import Broker
from tests.support.share_heartbeat import expire
from tests.support.share_scene import make_share_group
from tests.support.waiting import eventually

READER = ConnectorName("queue")
RECORDS = 100
QUICK = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": "1000"}


@dataclass
class Stage:
    """A topic of one partition with 100 records of 5 a batch, a share group on it, and a worker."""

    where: Connection
    worker: WorkerConfig
    topic: str
    group: str
    ledger: list[Any] = field(default_factory=list)

    def join(self, records: int = 5) -> ShareMember:
        return ShareMember(self.where, self.group, [self.topic], "reader", records)

    def take(self, member: ShareMember) -> list[Message]:
        """The next records."""
        return eventually(lambda: member.poll(1.0), 30, "records of the group", pause=0.0)

    def accept(self, member: ShareMember, messages: Sequence[Message]) -> None:
        for message in messages:
            member.answer(message, Answer.ACCEPT)
        member.send_answers(5.0)

    def act(self, state: ClusterState, owners: Sequence[str] = (), **act: Any) -> Done:
        sent = {"group": self.group, "act": act, "owners": list(owners), "reason": ""}
        asked = ActOnShareGroup.from_wire(sent)
        return ShareGroupAct(state, asked, self.worker, Deadline.after(60)).run(self._write)

    def _write(self, connector: ConnectorState, decide: Callable[[list[SourceOffset]], Any]) -> None:
        self.ledger.append((connector.name, decide([])))

    def state(self) -> str | None:
        """None: there is no such group."""
        with share_group_admin(self.where) as admin:
            return admin.names().get(self.group)

    def starts(self) -> list[tuple[int, int]]:
        found = describe(self.worker, self.group, Deadline.after(20))
        return [(each["partition"], each["start"]) for each in found["partitions"]]


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    where, topic, workers = Connection(broker.bootstrap), unique("t"), unique("w")
    create_topics(where, [TopicSpec(topic, 1, 1)], Deadline.after(30))
    pen = Producer(where.librdkafka(linger_ms=0, batch_num_messages=5))
    for number in range(RECORDS):
        pen.produce(topic, b"%d" % number)
        if number % 5 == 4:
            assert pen.flush(30) == 0
    group = f"{workers}-{READER}"
    alter_share_group(where, group, QUICK, Deadline.after(20))
    given = {"CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap, "CONNECT_GROUP_ID": workers}
    yield Stage(where, WorkerConfig.from_environment(given), topic, group)
    close_idle_clients()


def connector(stage: Stage, *, running: bool = False) -> ClusterState:
    """A cluster in which a connector reads the group; stopped, its round over."""
    config = {"connector.class": "ShareGroupSource", "topics": stage.topic}
    state = ClusterState()
    tasks = [{"topics": stage.topic}] if running else None
    target = TargetState.RUNNING if running else TargetState.STOPPED
    for record in plan_creation(READER, config, target, tasks)(state):
        state = apply(state, state.end, record)  # type: ignore[arg-type]  # nothing here is for another topic
    commit = state.connector(READER).commit
    if commit is None:
        return state
    return apply(state, state.end, TaskCountRecord(READER, commit.tasks, commit.generation))


def test_a_group_is_described_moved_forgotten_and_deleted_by_nobody_while_it_is_inhabited(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_group_acts, "reset_leader_positions", lambda *_: [])  # it takes long, and is tested below
    member = stage.join()
    stage.accept(member, stage.take(member))
    limit = Deadline.after(60)
    (row,) = [each for each in list_all(stage.worker, limit)["groups"] if each["group"] == stage.group]
    assert (row["state"], row["members"], row["topics"], row["partitions"]) == ("Stable", 1, [stage.topic], 1)
    found = describe(stage.worker, stage.group, limit)
    assert (found["members"][0]["client"], found["members"][0]["assigned"]) == (
        "reader",
        [{"topic": stage.topic, "partition": 0}],
    )
    assert {"name": "share.auto.offset.reset", "value": "earliest", "own": True} in found["settings"]
    told = foresee(stage.worker, stage.group, {"kind": "alter", "topics": None, "to": {"offset": 90}}, limit)
    assert [each["client"] for each in told["members"]] == ["reader"]
    assert [(each["first"], each["end"], each["to"]) for each in told["moves"]] == [(0, RECORDS, 90)]
    nobodys = ClusterState()
    for act in (
        {"kind": "alter", "topics": [stage.topic], "partitions": [0], "to": {"offset": 90}},
        {"kind": "delete_offsets", "topics": [stage.topic]},
        {"kind": "delete"},
    ):
        with pytest.raises(Refusal, match="reader") as refused:
            stage.act(nobodys, **act)
        assert refused.value.status == 409
    member.close()
    done = stage.act(nobodys, kind="alter", topics=[stage.topic], partitions=[0], to={"offset": 90})
    assert (stage.starts(), done["unsure"]) == ([(0, 90)], [])
    assert stage.act(nobodys, kind="alter", topics=None, partitions=None, to={"time_ms": 1})["moves"][0]["to"] == 0
    assert stage.act(nobodys, kind="alter", topics=None, partitions=None, to="latest")["moves"][0]["to"] == RECORDS
    assert stage.starts() == [(0, RECORDS)]
    settings = stage.act(nobodys, kind="configure", settings={"share.delivery.count.limit": "7"})["settings"]
    assert {"name": "share.delivery.count.limit", "value": "7", "own": True} in settings
    settings = stage.act(nobodys, kind="configure", settings={"delivery.count.limit": None})["settings"]
    assert {"name": "share.delivery.count.limit", "value": "5", "own": False} in settings
    with pytest.raises(Refusal, match=r"Unknown setting retention\.ms"):
        stage.act(nobodys, kind="configure", settings={"retention.ms": "1"})
    stage.act(nobodys, kind="delete_offsets", topics=[stage.topic])
    assert stage.starts() == []
    assert stage.act(nobodys, kind="delete")["unsure"] == []  # it has no offsets any more
    with pytest.raises(Refusal) as gone:
        describe(stage.worker, stage.group, limit)
    assert gone.value.status == 404
    assert stage.ledger == []


def test_a_connectors_group_is_moved_with_its_ledger_and_its_leader_forgets_where_it_was(stage: Stage) -> None:
    move = {"kind": "alter", "topics": [stage.topic], "partitions": [0], "to": {"offset": 50}}
    with frozen_reader(stage) as member:
        with pytest.raises(Refusal, match="must be in the STOPPED state"):
            stage.act(connector(stage, running=True), [READER], **move)
        with pytest.raises(Refusal, match="frozen"):
            stage.act(connector(stage), [READER], **move)
        with pytest.raises(Refusal, match="have just changed"):
            stage.act(connector(stage), [], **move)
        with pytest.raises(Refusal, match=r"sets record\.lock\.duration\.ms itself"):
            stage.act(connector(stage), [READER], kind="configure", settings={"record.lock.duration.ms": "20000"})
        assert stage.ledger == []
        expire(stage.where, stage.group, member)
        done = stage.act(connector(stage), [READER], **move)
        topic_id = topic_ids(stage.where, [stage.topic], Deadline.after(10))[stage.topic]
        key = {"topic_id": topic_id, "partition": 0}
        assert stage.ledger == [(READER, [(key, {"topic": stage.topic, "low": 50, "done": []})])]
        assert done["unsure"] == []
        following = stage.join()
        first = stage.take(following)
        following.close()
    assert first[0].offset() == 50  # without the flush: 5, of what the partition's leader had in memory


@contextmanager
def frozen_reader(stage: Stage) -> Iterator[str]:
    """The id of a member that has accepted some records and stands still, its session with the leader open."""
    command = [sys.executable, "-m", "tests.support.share_reader", stage.where.bootstrap, stage.group, stage.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "accepted\n"
            process.send_signal(signal.SIGSTOP)
            (member,) = describe(stage.worker, stage.group, Deadline.after(20))["members"]
            yield member["member"]
        finally:
            process.kill()


def test_what_the_broker_has_persisted_is_told_as_a_strip_and_step_by_step(
    broker: Broker, unique: Callable[[str], str]
) -> None:
    group, topic = unique("g"), unique("t")
    make_share_group(Connection(broker.bootstrap), group, topic)
    worker = WorkerConfig.from_environment({"CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap})
    limit = Deadline.after(120)

    def state_of_all() -> dict[str, Any]:
        (state,) = find_states(worker, group, describe(worker, group, limit)["partitions"], 2, Deadline.after(30))
        assert state["whole"], state
        return state

    def timeline_of_all() -> dict[str, Any]:
        told = find_timeline(worker, group, topic, 0, Deadline.after(30))
        assert told["whole"], told
        return told

    state = eventually(state_of_all, 30, pause=0.3)
    archived, done = [5, 9, "archived", 2], [10, 14, "acknowledged", 1]
    assert (state["whole"], state["start"], state["end"]) == (True, 0, 15)
    assert (state["strip"], state["archived"]) == ([[0, 4, "available", 1], archived, done], [archived])
    told = eventually(timeline_of_all, 30, pause=0.3)
    assert (told["end"], told["whole"], told["steps"][0]["kind"]) == (20, True, "snapshot")
    changed = [each for step in told["steps"] for each in step["changed"]]
    assert [5, 9, "available", 1] in changed  # the first delivery's end, of which the present state says nothing
    assert changed.index(archived) < changed.index(done)
    assert told["steps"][-1]["strip"] == state["strip"]
    with pytest.raises(Refusal, match="does not read"):
        find_timeline(worker, group, topic, 7, limit)
    close_idle_clients()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "offset"),
    [
        ({"kind": "alter", "topics": None, "to": {"offset": 50}}, 50),
        ({"kind": "delete_offsets"}, 0),
        ({"kind": "delete"}, 0),
    ],
    ids=["altered", "offsets deleted", "deleted"],
)
def test_the_leader_forgets_where_a_group_was_that_no_connector_reads(
    stage: Stage, act: dict[str, Any], offset: int
) -> None:
    more = {"topics": [stage.topic]} if act["kind"] == "delete_offsets" else {}
    with frozen_reader(stage) as member:
        expire(stage.where, stage.group, member)
        assert stage.act(ClusterState(), **act, **more)["unsure"] == []
        if act["kind"] == "delete_offsets":
            assert stage.starts() == []
        if act["kind"] == "delete":
            assert stage.state() is None
        following = stage.join()
        first = stage.take(following)
        following.close()
    assert first[0].offset() == offset  # without the flush: 5, of what the partition's leader had in memory


def test_who_joins_while_a_group_is_deleted_is_named_and_its_group_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = stage.join()
    stage.accept(member, stage.take(member))
    member.close()
    late: list[ShareMember] = []

    def join(*_: object) -> list[tuple[str, int]]:
        late.append(stage.join())
        stage.take(late[0])
        return []

    monkeypatch.setattr(share_group_acts, "reset_leader_positions", join)
    monkeypatch.setattr(share_group_acts, "_LEAVE_S", 0.5)
    with pytest.raises(
        Refusal, match=r"offsets .* are deleted, the group is not: 1 member has joined it since: reader"
    ):
        stage.act(ClusterState(), kind="delete")
    assert stage.state() == "Stable"
    late[0].close()
    monkeypatch.setattr(share_group_acts, "reset_leader_positions", lambda *_: [])
    stage.act(ClusterState(), kind="delete")
    assert stage.state() is None
