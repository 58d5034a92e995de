"""The commands that need our own API: transactions, workers, fencing, snapshots, versions, events; and `--wait`."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringfence import cli
from ringfence.client.output import Exit
from ringfence.client.rest import Rest, Server
from ringfence.commands import connectors as happenings
from ringfence.commands.completion import following
from ringfence.fencing.ids import Generation
from ringfence.fencing.topics.status import State
from ringfence.projection.projector import Projection
from tests.client.conftest import transport
from tests.support.client_runs import CONFIG, Captured, write
from tests.support.leader import FakeLeader
from tests.support.own_api import report
from tests.support.topics import Topic, task_status


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Callable[[], object]]], None]:
    """What happens in the pauses of `--wait`, one after another; nothing is left to happen at the end."""

    def set_steps(steps: list[Callable[[], object]]) -> None:
        left = iter(steps)
        monkeypatch.setattr("ringfence.client.states.sleep", lambda _: next(left)())

    return set_steps


def answer(capsys: Captured, *command: str) -> Any:
    assert cli.main([*command, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_transactions_are_listed_with_filters(two: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["transactions", "list", "a"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split() == [
        "CONNECTOR",
        "TASK",
        "ID",
        "STATE",
        "AGE",
        "TIMEOUT",
        "PRODUCER",
        "VERSION",
        "PARTITIONS",
    ]
    assert rows[1].split() == ["a", "0", "g-a-0", "Ongoing", "12", "ms", "60", "s", "7/3", "2", "t-0"]
    everywhere = answer(capsys, "transactions", "list")
    assert [row["connector"] for row in everywhere] == ["a", "a", "b c"]
    for filters, tasks in (
        (["--open"], [0]),
        (["--closed"], [1]),
        (["--state", "completecommit"], [1]),
        (["--task", "1", "--open"], []),
        (["--older-than", "0.001"], [0]),
        (["--older-than", "1"], []),
    ):
        assert [row["task"] for row in answer(capsys, "transactions", "list", "a", *filters)] == tasks, filters


def test_an_open_transaction_is_ended_with_a_reason(
    two: FakeLeader, capsys: Captured, meanwhile: Callable[..., None]
) -> None:
    end = ["transactions", "end", "a"]
    with pytest.raises(SystemExit):
        cli.main([*end, "g-a-0", "--yes"])
    assert cli.main([*end, "g-a-0", "--reason", "it hangs"]) == Exit.USAGE, "nobody is there to ask"
    assert cli.main([*end, "g-x-0", "--reason", "it hangs", "--yes"]) == Exit.NOT_FOUND
    assert "it has g-a-0, g-a-1" in capsys.readouterr().err
    assert cli.main([*end, "g-a-1", "--reason", "it hangs", "--yes"]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert not [kind for kind, _, _ in two.asked if kind.startswith("fence")]
    meanwhile([lambda: again(two, "a", 0)])
    assert cli.main([*end, "g-a-0", "--reason", "it hangs", "--yes", "--wait"]) == 0
    assert "g-a-0: fenced, now producer 7/4" in capsys.readouterr().out
    assert [body for kind, _, body in two.asked if kind == "fence_id"] == [{"id": "g-a-0", "reason": "it hangs"}]


def again(leader: FakeLeader, name: str, task: int, state: State = State.RUNNING) -> None:
    """As if the task ran in another attempt."""
    from ringfence.projection.models import Task

    row = Task.objects.get(connector=name, number=task)
    told = task_status(name, task, state, generation=row.generation)
    leader.status.status(replace(told, attempt=row.attempt + 1, since_ms=row.since_ms + 1))
    leader.project()


def test_fencing_waits_for_the_generation_that_its_round_makes_way_for(
    two: FakeLeader, capsys: Captured, meanwhile: Callable[..., None]
) -> None:
    from ringfence.projection.models import Connector

    def tasks_of_the_new_generation() -> None:
        number = Generation(Connector.objects.get(name="a").generation)
        two.status.status(*(replace(task_status("a", n, State.RUNNING, number), since_ms=9_000) for n in (0, 1)))
        two.project()
        report({"type": "round", "connector": "a", "generation": number, "stage": "done", "fenced": [{"id": "g-a-0"}]})

    meanwhile([tasks_of_the_new_generation])
    assert cli.main(["connectors", "fence", "a", "--reason", "a worker hangs", "--wait"]) == 0
    assert "a: fenced g-a-0" in capsys.readouterr().out
    assert [body for kind, _, body in two.asked if kind == "fence_now"] == [{"reason": "a worker hangs"}]


def test_a_restart_is_waited_for_by_its_attempts(
    two: FakeLeader, capsys: Captured, meanwhile: Callable[..., None]
) -> None:
    meanwhile([lambda: again(two, "a", 0), lambda: again(two, "a", 1)])
    assert cli.main(["connectors", "restart", "a", "--tasks", "--wait"]) == 0
    meanwhile([lambda: again(two, "a", 1, State.FAILED), lambda: again(two, "a", 1)])
    assert cli.main(["tasks", "restart", "a", "1", "--wait"]) == 0
    assert "1 FAILED, 1 RUNNING" in capsys.readouterr().err
    again(two, "a", 1, State.FAILED)
    meanwhile([lambda: None])
    assert cli.main(["connectors", "restart", "a", "--tasks", "--only-failed", "--wait", "--wait-seconds", "0"]) == 9
    assert "task 1: " in capsys.readouterr().err, "and why it has failed"


def test_a_change_is_waited_for_by_its_generation(
    two: FakeLeader, tmp_path: Path, capsys: Captured, meanwhile: Callable[..., None]
) -> None:
    """The tasks before go on for a while, RUNNING: they are not what was asked for."""
    file = write(tmp_path / "a.json", {"name": "a", "config": {**CONFIG, "topic": "u", "pin": "123456"}})
    meanwhile([lambda: two.start("a", tasks=2)])
    assert cli.main(["connectors", "apply", "-f", file, "--wait"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "a: RUNNING, tasks: 2 RUNNING; the tasks of the new configuration are being created"
    assert told[-1] == "a: RUNNING, tasks: 2 RUNNING"


def test_snapshots_are_taken_listed_and_undone(two: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["offsets", "undo", "a"]) == Exit.NOT_FOUND
    assert "name one with --to" in capsys.readouterr().err
    two.offsets.offset("a", {"id": 0}, {"seqno": 5})
    two.project()
    assert cli.main(["offsets", "snapshot", "a", "--why", "before a try"]) == 0
    assert "a: snapshot 1 of 1 partition\n" in capsys.readouterr().out
    (row,) = answer(capsys, "offsets", "snapshots", "a")
    assert (row["number"], row["why"]) == (1, "before a try")
    two.offsets.offset("a", {"id": 0}, {"seqno": 9})
    two.project()
    assert cli.main(["offsets", "snapshot", "a"]) == 0
    capsys.readouterr()
    assert answer(capsys, "offsets", "preview", "a", "1")["offsets"][0]["after"] == {"seqno": 5}
    assert cli.main(["offsets", "undo", "a", "--dry-run"]) == 0
    assert "would be as in snapshot 1" in capsys.readouterr().out, "the newest is what it has"
    assert cli.main(["offsets", "undo", "a", "--yes"]) == Exit.CONFLICT
    assert "ringfence connectors stop a --wait" in capsys.readouterr().err
    assert cli.main(["connectors", "stop", "a"]) == 0
    two.start("a", tasks=0, state=State.STOPPED)
    assert cli.main(["offsets", "undo", "a", "--yes"]) == 0
    assert two.asked[-1] == ("alter_offsets", "a", {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": 5}}]})
    assert cli.main(["offsets", "undo", "a", "--to", "2"]) == 0
    assert "unchanged" in capsys.readouterr().out


def test_versions_differ_and_are_rolled_back_to(two: FakeLeader, tmp_path: Path, capsys: Captured) -> None:
    file = write(tmp_path / "a.json", {"name": "a", "config": {**CONFIG, "topic": "u", "pin": "654321"}})
    assert cli.main(["connectors", "apply", "-f", file]) == 0
    capsys.readouterr()
    assert cli.main(["connectors", "versions", "a"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("2 *")
    assert cli.main(["connectors", "diff", "a", "1"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines() == [
        "a: version 1 -> 2",
        "  ~ pin = [hidden] -> (another one)",
        "  ~ topic = t -> u",
    ]
    assert set(answer(capsys, "connectors", "diff", "a", "2", "1")["changed"]) == {"pin", "topic"}
    asked = len(two.asked)
    assert cli.main(["connectors", "rollback", "a", "1", "--dry-run"]) == 0
    assert cli.main(["connectors", "rollback", "a", "2", "--yes"]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert cli.main(["connectors", "rollback", "a", "1"]) == Exit.USAGE
    assert len(two.asked) == asked
    assert cli.main(["connectors", "rollback", "a", "1", "--yes"]) == 0
    assert "~ topic = u -> t" in capsys.readouterr().out
    assert two.asked[-1][2]["config"]["pin"] == "123456"
    assert cli.main(["connectors", "diff", "a", "9"]) == Exit.NOT_FOUND


def test_workers_and_their_leader(two: FakeLeader, capsys: Captured) -> None:
    from ringfence.projection.models import ClusterInfo, Worker

    assert cli.main(["workers", "leader"]) == Exit.NOT_FOUND
    assert "is one running?" in capsys.readouterr().err
    Worker.objects.create(worker="w1", incarnation="i", mode="enabled", slots=4, version="1", since_ms=5_000)
    ClusterInfo.objects.create(id=1, leader="w1", incarnation="i", group_generation=3, since_ms=5_000)
    assert cli.main(["workers", "list"]) == 0
    told = capsys.readouterr().out.splitlines()[1]
    assert told.split() == ["w1", "leader", "3/4", "enabled", "1", "1970-01-01", "00:00:05Z"]
    assert answer(capsys, "workers", "leader")["leader"] == "w1"


def test_incidents_are_acknowledged_and_silenced(two: FakeLeader, capsys: Captured) -> None:
    from ringfence.alerts.models import Incident

    one = Incident.objects.create(rule_name="r", kind="failed", subject="a", connector="a", summary="S", opened_ms=5)
    assert cli.main(["alerts", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[1:3] == ["a", "r"]
    assert cli.main(["alerts", "acknowledge", str(one.pk)]) == 0
    assert "acknowledged by" in capsys.readouterr().out
    assert cli.main(["alerts", "silence", "--connector", "a", "--hours", "2", "--reason", "upgrade"]) == 0
    assert "a: silenced until" in capsys.readouterr().out
    (silence,) = answer(capsys, "alerts", "silences")
    assert (silence["connector"], silence["why"]) == ("a", "upgrade")
    assert cli.main(["alerts", "unsilence", str(silence["id"])]) == 0
    assert cli.main(["alerts", "silence", "--everything", "--hours", "999", "--reason", "x"]) == Exit.INVALID
    assert cli.main(["alerts", "acknowledge", "999"]) == Exit.NOT_FOUND


def test_events_are_shown_once_and_in_their_order(two: FakeLeader, capsys: Captured) -> None:
    topic = Topic()

    def tell(message: str, time_ms: int) -> None:
        told = topic.event(type="warning", connector="a", message=message, time_ms=time_ms)
        Projection("events", "events", "id").apply(told, topic.end)

    for n in range(4):
        tell(f"m{n}", 1_000 + n)
    assert cli.main(["connectors", "events", "a", "--limit", "2"]) == 0
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()] == ["m2", "m3"]
    later = iter([("late", 1_001), ("new", 5_000)])
    rest = Rest(Server("http://localhost"), transport=transport())
    path = "/api/v1/connectors/a/events"
    rows = happenings.follow(rest, path, {}, 1, forever=True, pause=lambda _: tell(*next(later)))
    assert [row["summary"].rpartition(" ")[2] for row in itertools.islice(rows, 3)] == ["m3", "late", "new"]


def test_logs_are_told_by_level_and_task(two: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["connectors", "logs", "a"]) == 0
    assert "no such lines are kept" in capsys.readouterr().err
    report({"type": "log", "connector": "a", "level": "WARN", "logger": "x", "message": "slow", "task": 1})
    assert cli.main(["connectors", "logs", "a", "--task", "1", "--level", "WARN"]) == 0
    assert "WARN   task 1: x: slow" in capsys.readouterr().out
    assert cli.main(["connectors", "logs", "a", "--level", "ERROR"]) == 0
    assert capsys.readouterr().out == ""


def test_the_log_level_is_shown_and_set_for_a_while(two: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["connectors", "log-level", "a"]) == 0
    assert capsys.readouterr().out == "a: INFO\n"
    assert cli.main(["connectors", "log-level", "a", "debug", "--minutes", "5"]) == 0
    assert capsys.readouterr().out.startswith("a: DEBUG until 20")
    assert two.asked[-1][:2] == ("set_connector_log_level", "a")
    assert cli.main(["connectors", "log-level", "a", "loud"]) == Exit.INVALID


def test_a_kafka_connect_has_no_such_routes(two: FakeLeader, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    from ringfence.client import arguments

    known = {"/connectors/a": {"name": "a", "tasks": [{}], "config": {}}}
    known["/connectors/a/status"] = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}

    def connect(request: httpx.Request) -> httpx.Response:
        body = known.get(request.url.path)
        if request.method != "GET":
            return httpx.Response(202)
        return httpx.Response(200, json=body) if body else httpx.Response(404, json={"message": "HTTP 404 Not Found"})

    monkeypatch.setattr(arguments, "Rest", lambda server, timeout: Rest(server, timeout, httpx.MockTransport(connect)))
    assert cli.main(["workers", "list"]) == Exit.NOT_FOUND
    assert "is not a Ringfence server" in capsys.readouterr().err
    for wanted in (["resume", "a"], ["restart", "a", "--tasks"]):
        assert cli.main(["connectors", *wanted, "--wait"]) == 0


def test_the_new_commands_complete() -> None:
    assert {"transactions", "workers"} <= set(following([""]))
    assert {"versions", "diff", "rollback", "fence", "events", "logs"} <= set(following(["connectors", ""]))
    assert {"snapshot", "snapshots", "undo"} <= set(following(["offsets", ""]))
    assert "--reason" in following(["connectors", "fence", "a", "--r"])


def test_what_no_coordinator_knows_is_shown_and_ended(two: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["transactions", "hanging"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows[0] == ["a", "t", "0", "7", "12", "2", "h", "g-a-0", "yes"]
    abort = ["transactions", "abort", "a", "t", "0", "7", "--reason", "readers wait"]
    assert cli.main(abort) == Exit.USAGE, "nobody is there to ask"
    assert cli.main([*abort, "--yes"]) == 0
    assert "t-0: what was open from offset 12 on is aborted" in capsys.readouterr().out
    (sent,) = [sent for kind, _, sent in two.asked if kind == "end_hanging"]
    assert (sent["topic"], sent["partition"], sent["producer_id"], sent["reason"]) == ("t", 0, 7, "readers wait")


def test_a_share_group_is_moved_after_its_numbers_were_told(two: FakeLeader, capsys: Captured) -> None:
    assert cli.main(["share", "list"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split() == ["GROUP", "CONNECTOR", "STATE", "MEMBERS", "PARTITIONS", "LAG", "TOPICS"]
    assert rows[4].split() == ["payments", "-", "Empty", "0", "1", "20", "t"]
    assert cli.main(["share", "describe", "busy"]) == 0
    assert "app     10.0.0.7  m1      t-0" in capsys.readouterr().out
    move = ["share", "alter", "payments", "--to-earliest", "--topic", "t", "--reason", "again"]
    assert cli.main([*move, "--dry-run"]) == 0
    assert "60 offsets would be processed again, 0 would be skipped" in capsys.readouterr().out
    assert not [each for each in two.asked if "owners" in each[2]]
    assert cli.main(move) == Exit.USAGE  # nobody is there to ask
    assert cli.main([*move, "--yes"]) == 0
    assert "60 offsets are processed again" in capsys.readouterr().out
    kind, _, body = two.asked[-2]
    assert (kind, body["group"], body["act"]["to"], body["reason"]) == ("share_group", "payments", "earliest", "again")
    assert cli.main(["share", "delete", "busy", "--reason", "old", "--yes"]) == Exit.CONFLICT
    assert "app (10.0.0.7)" in capsys.readouterr().err
    assert cli.main(["share", "delete-offsets", "payments", "--topic", "t", "--reason", "old", "--yes"]) == 0
    change = ["share", "set", "payments", "record.lock.duration.ms=", "--reason", "default again"]
    assert cli.main(change) == 0
    assert two.asked[-1][2]["act"]["settings"] == {"record.lock.duration.ms": None}
    assert cli.main(["share", "settings", "payments"]) == 0
    capsys.readouterr()
    assert cli.main(["share", "process", "payments", "--reason", "now", "--dry-run"]) == Exit.CONFLICT
    shown = capsys.readouterr()
    assert "0 offsets would be processed now" in shown.out
    assert "No connector reads" in shown.err
