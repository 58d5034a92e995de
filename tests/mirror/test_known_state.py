"""A projector goes on from the state that its process knows, where that is the state at its stored position."""

from dataclasses import replace

import pytest

from ringfence.encryption import ConfigVault
from ringfence.fencing.ids import ConnectorName, TaskId, WorkerId
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import StatePublisher, Version
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConnectorRecord,
    DrainRecord,
    PlacementRecord,
    TargetStateRecord,
    TaskRecord,
)
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.projection import config_rows
from ringfence.projection.models import Connector, Task
from ringfence.projection.positions import shown_offset
from ringfence.projection.projector import Projection
from tests.support.topics import Topic, connector, generation

C, D = ConnectorName("c"), ConnectorName("d")


def story() -> Topic:
    """Generations, one that is not yet complete, what cannot be read, a deletion, and what belongs to no connector."""
    topic = Topic()
    topic.config(connector("c", topic="flights"), *generation("c", 2, 1))
    topic.config(PlacementRecord(TaskId(C, 0), WorkerId("w1")), LoggerRecord("root", "DEBUG"))
    topic.config(connector("d"), TargetStateRecord(D, TargetState.PAUSED))
    topic.raw(b"connector-d", b"{")
    topic.raw(b"nobody-knows", b"{}")
    topic.config(TaskRecord(TaskId(C, 0), {"task.id": "7"}), TaskRecord(TaskId(C, 1), {"task.id": "8"}))
    topic.config(CommitRecord(C, 1), TopicGrantRecord(C, (("flights.*",),), "ann"), DrainRecord(WorkerId("w1"), None))
    topic.config(connector("d", topic="trains"), *generation("d", 1, len(topic.records) + 1))
    topic.config(CommitRecord(D, 0), TargetStateRecord(D, None), ConnectorRecord(D, None))
    topic.config(connector("d", topic="again"))
    return topic


def known_at(topic: Topic, end: int) -> Version:
    """What the follower of the worker knows once it has read so much."""
    publisher = StatePublisher("config-topic", ConfigVault())
    records = [
        LogRecord(one.partition, one.offset, one.key, one.value, one.timestamp_ms, one.headers)
        for one in topic.records[:end]
    ]
    return publisher.take(0, records, end, at_end=True)


def plain(state: ClusterState) -> ClusterState:
    """Without the words for what cannot be read: the follower has longer ones."""
    connectors = {
        name: replace(one, unreadable=None if one.unreadable is None else "unreadable")
        for name, one in state.connectors.items()
    }
    return replace(state, connectors=connectors)


def test_what_follows_has_the_same_rows_from_any_position() -> None:
    topic = story()
    everything = topic.records
    for end in range(len(everything) + 1):
        before = config_rows.fold(ClusterState(), everything[:end], "config-topic").state
        known = known_at(topic, end).state
        assert plain(known) == plain(before)
        read, shared = (config_rows.fold(state, everything[end:], "config-topic") for state in (before, known))
        assert plain(shared.state) == plain(read.state)
        for mine, theirs in zip(read.generations, shared.generations, strict=True):
            assert (mine.generation, mine.tasks, mine.committed_ms, mine.config_offset) == (
                theirs.generation, theirs.tasks, theirs.committed_ms, theirs.config_offset,
            )  # fmt: skip
        for field in ("touched", "fenced", "warnings", "configs", "drains", "retasked", "arrived"):
            assert getattr(read, field) == getattr(shared, field), field
        assert read.levels.keys() == shared.levels.keys()
        assert read.tombstones.keys() == shared.tombstones.keys()


def apply_to_end(projection: Projection, topic: Topic) -> None:
    projection.apply(topic.records[projection.start.get(0, 0) :], topic.end)
    projection.remove_others()


@pytest.mark.parametrize("behind", [0, 1])
def test_it_reads_nothing_twice_and_all_where_the_positions_differ(behind: int) -> None:
    topic = Topic()
    topic.config(connector("c", topic="flights"), *generation("c", 2, 1))
    apply_to_end(Projection("config", "config-topic", "id-1"), topic)
    topic.config(TargetStateRecord(C, TargetState.PAUSED))
    known = known_at(topic, 5 + behind)
    projection = Projection("config", "config-topic", "id-1", version=known)
    assert projection.start == ({} if behind else {0: 5})
    apply_to_end(projection, topic)
    row = Connector.objects.get()
    assert (row.target, row.task_count, row.settings["topic"]) == ("PAUSED", 2, "flights")
    assert Task.objects.filter(known=True).count() == 2
    assert shown_offset("config", 0) == 6


def test_the_rows_of_another_topic_are_made_again_whatever_is_known() -> None:
    old, new = Topic(), Topic()
    old.config(connector("c"))
    apply_to_end(Projection("config", "config-topic", "id-1"), old)
    new.config(connector("d"))
    projection = Projection("config", "renamed-topic", "id-2", version=known_at(new, 1))
    assert projection.start == {}
    apply_to_end(projection, new)
    assert list(Connector.objects.filter(known=True).values_list("name", flat=True)) == ["d"]
