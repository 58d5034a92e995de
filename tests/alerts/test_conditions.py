"""What rules find, and that one cause is one incident: pure."""

from dataclasses import replace
from typing import Any

import pytest

from ringfence.alerts.conditions import Finding, Kind, RuleCondition, changes, evaluate_rules, pause_ms
from ringfence.alerts.evaluation import follow
from ringfence.alerts.snapshot import ClusterSnapshot, ConnectorSnapshot, ForeignRecords, TaskSnapshot

NOW = 1_000_000_000


def ago(seconds: float) -> int:
    return NOW - int(seconds * 1000)


def rule(kind: Kind, seconds: int = 60, pattern: str = "*", number: int = 1) -> RuleCondition:
    return RuleCondition(number, kind, pattern, seconds)


def task(number: int = 0, **more: Any) -> TaskSnapshot:
    told: dict[str, Any] = {"state": "RUNNING", "since_ms": ago(1000), "polled_ms": ago(1), "open_since_ms": 0, **more}
    return TaskSnapshot("flights", number, **told)


def connector(name: str = "flights", **more: Any) -> ConnectorSnapshot:
    told: dict[str, Any] = {"state": "RUNNING", "target": "RUNNING", "since_ms": ago(1000), **more}
    return ConnectorSnapshot(name, **told)


def subjects(asked: RuleCondition, *seen: TaskSnapshot | ConnectorSnapshot, **cluster: Any) -> list[str]:
    connectors = tuple(one for one in seen if isinstance(one, ConnectorSnapshot)) or (connector(),)
    tasks = tuple(one for one in seen if isinstance(one, TaskSnapshot))
    return [
        subject for _, subject in evaluate_rules([asked], followed(ClusterSnapshot(NOW, connectors, tasks, **cluster)))
    ]


def followed(seen: ClusterSnapshot) -> ClusterSnapshot:
    """With its failures, as if they had been seen from their beginning."""
    return replace(seen, episodes=tuple(follow({}, seen).values()))


def test_a_failure_counts_once_it_has_lasted() -> None:
    failed = task(state="FAILED", since_ms=ago(61))
    assert subjects(rule(Kind.FAILED), failed) == ["task flights-0"]
    assert subjects(rule(Kind.FAILED), task(state="FAILED", since_ms=ago(59))) == []
    assert subjects(rule(Kind.FAILED, pattern="other-*"), failed) == []
    assert subjects(rule(Kind.FAILED), connector(state="FAILED")) == ["connector flights"]
    assert subjects(rule(Kind.FAILED), task(), connector()) == []


def test_the_summary_names_the_exception_and_not_the_whole_trace() -> None:
    trace = 'Traceback (most recent call last):\n  File "x", line 1\nValueError: no such table\n'
    seen = followed(ClusterSnapshot(NOW, (connector(),), (task(state="FAILED", since_ms=ago(99), trace=trace),)))
    (found,) = evaluate_rules([rule(Kind.FAILED)], seen).values()
    assert found.summary == "Task 0 of flights has failed. no such table"
    ours = trace.replace("ValueError: no", "ringfence.connectors.api.errors.ConnectorError: No")
    seen = followed(ClusterSnapshot(NOW, (connector(),), (task(state="FAILED", since_ms=ago(99), trace=ours),)))
    (found,) = evaluate_rules([rule(Kind.FAILED)], seen).values()
    assert found.summary == "Task 0 of flights has failed. No such table"


@pytest.mark.parametrize(
    ("asked", "seen", "expected"),
    [
        (rule(Kind.STALLED), [task(polled_ms=ago(61))], True),
        (rule(Kind.STALLED), [task(polled_ms=ago(59))], False),
        (rule(Kind.STALLED), [task(polled_ms=0, since_ms=ago(61))], True),
        (rule(Kind.STALLED), [task(polled_ms=ago(500), since_ms=ago(5))], False),  # it has only just started
        (rule(Kind.STALLED), [task(polled_ms=ago(61)), connector(target="PAUSED")], False),
        (rule(Kind.STALLED), [task(state="PAUSED", polled_ms=ago(61))], False),
        (rule(Kind.STALLED, 0), [connector(stalled=True)], True),
        (rule(Kind.STALLED, 0), [task(polled_ms=ago(9999)), connector()], False),
        (rule(Kind.OPEN_TRANSACTION), [task(open_since_ms=ago(61))], True),
        (rule(Kind.OPEN_TRANSACTION), [task(open_since_ms=ago(59))], False),
        (rule(Kind.OPEN_TRANSACTION), [task()], False),
        (rule(Kind.FENCING_FAILED), [connector(round_failed_ms=ago(61))], True),
        (rule(Kind.FENCING_FAILED), [connector()], False),
    ],
)
def test_each_kind_of_rule(asked: RuleCondition, seen: list[Any], expected: bool) -> None:
    assert bool(subjects(asked, *seen)) is expected


def test_no_leader() -> None:
    assert subjects(rule(Kind.NO_LEADER, 30), leaderless_ms=ago(31)) == ["leader"]
    assert subjects(rule(Kind.NO_LEADER, 30), leaderless_ms=ago(29)) == []
    assert subjects(rule(Kind.NO_LEADER, 0)) == []


def test_a_lost_topic() -> None:
    assert subjects(rule(Kind.TOPIC_LOST, 10), topics_lost="It is gone", topics_lost_ms=ago(11)) == ["topics"]
    assert subjects(rule(Kind.TOPIC_LOST, 10), topics_lost="It is gone", topics_lost_ms=ago(9)) == []
    assert subjects(rule(Kind.TOPIC_LOST, 0)) == []


def test_foreign_records_of_the_config_topic() -> None:
    found = (ForeignRecords("flights", 2, ago(5), "Offset 7"), ForeignRecords("", 1, ago(5), "Offset 8"))
    assert subjects(rule(Kind.FOREIGN_RECORD, 0), foreign_records=found) == [
        "config records of flights",
        "config records",
    ]
    assert subjects(rule(Kind.FOREIGN_RECORD, 10), foreign_records=found) == []
    assert subjects(rule(Kind.FOREIGN_RECORD, 0, "fl*"), foreign_records=found) == ["config records of flights"]
    assert subjects(rule(Kind.FOREIGN_RECORD, 0)) == []


def test_one_cause_is_one_incident_until_it_is_gone() -> None:
    asked = [rule(Kind.FAILED, number=1), rule(Kind.FAILED, pattern="flights", number=2)]
    failed = (task(0, state="FAILED", since_ms=ago(99)), task(1, state="FAILED", since_ms=ago(99)))
    two = followed(ClusterSnapshot(NOW, (connector(),), failed))
    first = changes([], evaluate_rules(asked, two))
    assert sorted(first.opened) == [
        (1, "task flights-0"),
        (1, "task flights-1"),
        (2, "task flights-0"),
        (2, "task flights-1"),
    ]
    assert first.resolved == frozenset()
    again = changes(first.opened, evaluate_rules(asked, two))
    assert (dict(again.opened), again.resolved) == ({}, frozenset())
    one = followed(ClusterSnapshot(NOW, (connector(),), (task(0, state="FAILED", since_ms=ago(99)), task(1))))
    after = changes(first.opened, evaluate_rules(asked, one))
    assert dict(after.opened) == {}
    assert after.resolved == {(1, "task flights-1"), (2, "task flights-1")}
    gone = changes(first.opened, evaluate_rules(asked[:1], two))  # the second rule was deleted
    assert gone.resolved == {(2, "task flights-0"), (2, "task flights-1")}


def test_what_comes_back_is_another_incident() -> None:
    found = {(1, "x"): Finding("x", "", "s")}
    assert changes([(1, "x")], {}).resolved == {(1, "x")}
    assert dict(changes([], found).opened) == found


def test_pauses_grow_and_end() -> None:
    pauses = [pause_ms(tries) for tries in range(1, 12)]
    known = [pause for pause in pauses if pause is not None]
    assert known == sorted(known)
    assert len(set(known)) == len(known) == 9
    assert pauses[9:] == [None, None]


def test_a_source_that_cannot_be_read_is_found_with_its_message() -> None:
    away = task(retrying_ms=ago(31), refusal="connection refused")
    seen = ClusterSnapshot(NOW, (connector(),), (away, task(1)))
    (found,) = evaluate_rules([rule(Kind.RETRYING, seconds=30)], seen).values()
    assert (found.subject, found.connector, found.began_ms) == ("source of task flights-0", "flights", ago(31))
    assert found.summary == "Task 0 of flights cannot read its source, and tries again. connection refused"
    assert subjects(rule(Kind.RETRYING, seconds=32), away) == []
    assert subjects(rule(Kind.RETRYING, seconds=30, pattern="other"), away) == []
