"""`ringfence connectors incremental-snapshot`, against the real API with a stand-in for the leader."""

import json

import pytest

from ringfence import cli
from ringfence.client.output import Exit
from ringfence.connectors.builtin.postgres.offsets import IncrementalState, QueuedTable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_records.connector import ConnectorRecord
from tests.support.client_runs import Captured
from tests.support.leader import FakeLeader

SNAPSHOT = ["connectors", "incremental-snapshot", "shop"]


@pytest.fixture
def shop(leader: FakeLeader) -> FakeLeader:
    config = {"name": "shop", "connector.class": "PostgresSource", "topic.prefix": "shop"}
    leader.config.config(ConnectorRecord(ConnectorName("shop"), config))
    leader.start("shop")
    return leader


def sent(leader: FakeLeader) -> list[tuple[str, list[str]]]:
    bodies = [body for name, _, body in leader.asked if name == "send_signal"]
    return [(body["kind"], body["data"]["data-collections"]) for body in bodies]


def test_requests_reach_the_task(shop: FakeLeader, capsys: Captured) -> None:
    for act in (["start", "public.orders", "public.lines"], ["pause"], ["resume"], ["stop", "a", "b"], ["stop"]):
        assert cli.main([*SNAPSHOT, *act]) == 0
        assert f"shop: {act[0]} requested" in capsys.readouterr().out
    assert sent(shop) == [
        ("execute-snapshot", ["public.orders", "public.lines"]),
        ("pause-snapshot", []),
        ("resume-snapshot", []),
        ("stop-snapshot", ["a"]),
        ("stop-snapshot", ["b"]),
        ("stop-snapshot", []),
    ]


def test_what_means_nothing_is_refused(shop: FakeLeader, capsys: Captured) -> None:
    assert cli.main([*SNAPSHOT, "start"]) == Exit.USAGE
    assert cli.main([*SNAPSHOT, "pause", "t"]) == Exit.USAGE
    assert cli.main([*SNAPSHOT, "start", "("]) == Exit.INVALID
    assert "not a regular expression" in capsys.readouterr().err
    assert sent(shop) == []


def test_progress_is_shown(shop: FakeLeader, capsys: Captured) -> None:
    assert cli.main([*SNAPSHOT, "status"]) == 0
    assert capsys.readouterr().out == "shop: nothing is being read, 0 rows read\n"
    queue = (QueuedTable(7, "public.orders", 900), QueuedTable(8, "public.lines", 50))
    state = IncrementalState(queue, True, ("900",), ("300",), 300, 340, paused=True, note="Paused.")
    shop.offsets.offset("shop", {"server": "shop", "snapshot": "incremental"}, dict(state.as_offset()))
    shop.project()
    assert cli.main([*SNAPSHOT, "status"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["shop:", "paused,", "340", "rows", "read,", "about", "34", "%"],
        ["Paused."],
        ["TABLE", "ROWS", "ESTIMATED"],
        ["public.orders", "300", "900"],
        ["public.lines", "-", "50"],
    ]
    assert cli.main([*SNAPSHOT, "status", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["percent"] == 34
