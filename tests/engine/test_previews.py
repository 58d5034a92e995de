"""A preview never reads beside a task of the same source; the config topic says where one may run."""

from typing import Any

import pytest

from ringfence.engine.queries.previews import rival_of
from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, TargetStateRecord, TaskCountRecord
from ringfence.fencing.topics.connector_state import TargetState

NAMES = frozenset({"Files", "org.example.Files"})
KEYS: list[dict[str, object]] = [
    {"name": "file", "type": "STRING", "default_value": None},
    {"name": "dialect", "type": "STRING", "default_value": "plain"},
    {"name": "topic", "type": "STRING", "default_value": None},
    {"name": "topic.prefix", "type": "STRING", "default_value": ""},
    {"name": "topics", "type": "LIST", "default_value": ""},
    {"name": "batch.size", "type": "INT", "default_value": "2000"},
]
MINE = {"name": "mine", "connector.class": "Files", "file": "/a", "topic": "x", "batch.size": "7"}


def cluster(*records: Any) -> ClusterState:
    state = ClusterState()
    for offset, record in enumerate(records):
        state = apply(state, offset, record)
    return state


def connector(name: str = "other", **config: str) -> ConnectorRecord:
    return ConnectorRecord(ConnectorName(name), {"name": name, "connector.class": "org.example.Files", **config})


def stopped(name: str = "other") -> list[Any]:
    """Stopped, its generation of no tasks at offset 2, and the round over."""
    who = ConnectorName(name)
    return [
        TargetStateRecord(who, TargetState.STOPPED),
        CommitRecord(who, 0),
        TaskCountRecord(who, 0, Generation(2), {}),
    ]


def rival(*records: Any, config: dict[str, str] | None = None) -> str | None:
    return rival_of(config or MINE, cluster(*records), NAMES, KEYS)


def test_a_connector_of_the_same_name_must_be_at_rest() -> None:
    other_file = connector("mine", file="/elsewhere")
    assert rival(other_file) == "mine"
    assert rival(other_file, *stopped("mine")) is None
    assert rival() is None


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_a_stop_counts_when_its_round_is_over(left_out: int) -> None:
    steps = stopped()
    assert rival(connector(file="/a"), *steps) is None
    if left_out == 1:  # stopped by word only, and its tasks are still there
        steps[1] = CommitRecord(ConnectorName("other"), 2)
    else:
        del steps[left_out]
    assert rival(connector(file="/a"), *steps) == "other"


def test_a_deleted_connector_whose_round_is_open_may_still_read() -> None:
    gone = ConnectorRecord(ConnectorName("mine"), None)
    assert rival(connector("mine"), CommitRecord(ConnectorName("mine"), 0), gone) == "mine"


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        ({"file": "/a"}, True),
        ({"file": " /a ", "topic": "y", "topic.prefix": "z", "batch.size": "9", "dialect": "plain"}, True),
        ({"file": "/a", "dialect": "odd"}, False),
        ({"file": "/b"}, False),
        ({"file": "/a", "topics": "some"}, False),
        ({"file": "/a", "connector.class": "Tables"}, False),
    ],
)
def test_other_connectors_count_where_they_read_the_same_source(theirs: dict[str, str], same: bool) -> None:
    assert rival(connector(**theirs)) == ("other" if same else None)


def test_a_plugin_that_makes_its_records_up_shares_no_source() -> None:
    keys: list[dict[str, object]] = [{"name": "topic", "type": "STRING"}, {"name": "throughput", "type": "LONG"}]
    state = cluster(connector(throughput="5"))
    assert rival_of({**MINE, "throughput": "5"}, state, NAMES, keys) is None
