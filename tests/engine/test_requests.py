"""Each request between processes has a class that answers it, and travels as it was."""

import json
from typing import Any

import pytest

from ringfence.engine import questions
from ringfence.engine.celery_answers import catch_refusals
from ringfence.engine.leader import commands
from ringfence.engine.leader.command_service import _parse
from ringfence.engine.leader.commands import COMMANDS, Configure, Restart, parse
from ringfence.engine.questions import QUESTIONS, DescribeTransactions, ListDeadLetters, Preview, Validate
from ringfence.fencing.ids import ConnectorName, Incarnation, TaskId, WorkerId
from ringfence.fencing.topics.status import State, StatusState, WorkerRecord, apply, decode, encode
from ringfence.requests.request import Command, MalformedRequest, Question, Refusal, Request
from tests.support.topics import task_status

_ACT: dict[str, object] = {"group": "g", "owners": [], "reason": "r"}


def subclasses(kind: type[Any]) -> set[type[Any]]:
    return {one for child in kind.__subclasses__() for one in {child, *subclasses(child)} if "name" in vars(one)}


def test_every_command_is_carried_out_and_every_question_answered() -> None:
    declared = {one for one in subclasses(Command) if one.__module__.startswith(commands.__name__)}
    assert set(COMMANDS) == declared
    assert set(QUESTIONS) == subclasses(Question)
    assert all("answer" in vars(kind) for kind in QUESTIONS)
    names = [kind.name for kind in COMMANDS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "sent",
    [
        Configure("c", {"a": "1"}, create=False, expected=7),
        Restart("c", include_tasks=True, only_failed=False),
        Validate("Plugin", {"a": "1", "b": None}, java=True, ask_brokers=False),
        Preview({"name": "c"}, ["pin"], {"records": 5, "seconds": 1.5}, fresh=True, java=False),
        ListDeadLetters({"name": "c"}, "", "", [[0, 7]], committed_only=True),
        commands.AlterOffsets("c", [{"partition": {"p": 1}, "offset": {"o": [1]}}, {"partition": {}, "offset": None}]),
        commands.ActOnShareGroup("g", {"kind": "alter", "topics": None, "to": {"offset": 1}}, ["c"], "r", "c"),
        commands.ActOnShareGroup("g", {"kind": "delete"}, [], "r"),
        commands.ActOnShareGroup("g", {"kind": "configure", "settings": {"a": None}}, [], "r"),
        DescribeTransactions("c", 2, {"a": "1"}, [{"b": "2"}]),
    ],
    ids=lambda sent: sent.name,
)
def test_a_request_is_read_back_as_it_was(sent: Request[Any]) -> None:
    assert type(sent).from_wire(sent.to_wire()) == sent


def test_what_has_its_default_is_not_sent() -> None:
    assert commands.FenceNow("c", "why").body() == {"reason": "why"}
    assert parse("fence_now", "c", {"reason": "why"}) == commands.FenceNow("c", "why", wait=True)


@pytest.mark.parametrize(
    "kind, connector, body, said",
    [
        ("dance", "c", {}, "Unknown command"),
        ("pause", None, {}, "connector"),
        ("pause", "c", {"speed": 1}, "speed"),
        ("restart_task", "c", {"task": "1"}, "task"),
        ("restart_task", "c", {"task": True}, "task"),
        ("configure", "c", {"config": {"a": 1}, "create": True}, "config"),
        ("alter_offsets", "c", {"offsets": {"partition": {}}}, "offsets"),
        ("alter_offsets", "c", {"offsets": [{"offset": {}}]}, "offsets"),
        ("alter_offsets", "c", {"offsets": [{"partition": {}, "offset": 1}]}, "offsets"),
        ("share_group", None, {**_ACT, "act": {"kind": "dance"}}, "act"),
        ("share_group", None, {**_ACT, "act": {"kind": "delete_offsets"}}, "act"),
        ("share_group", None, {**_ACT, "act": {"kind": "delete", "topics": ["t"]}}, "act"),
        ("share_group", None, {**_ACT, "act": {"kind": "alter", "topics": ["t"], "to": 7}}, "act"),
    ],
)
def test_what_another_version_sends_is_refused_with_its_field(
    kind: str, connector: str | None, body: dict[str, Any], said: str
) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parse(kind, connector, body)


def test_what_a_newer_version_asks_is_refused_with_a_sentence_that_says_so() -> None:
    """Of a worker, and of the leader: a field that this version does not know may be what the request is about."""
    asked = questions.Preflight({"name": "c"}, java=False).to_wire()
    told = catch_refusals(lambda: {"value": questions.Preflight.from_wire({**asked, "thorough": True})})
    assert told["status"] == 400
    assert "preflight has no field thorough" in str(told)
    assert "Web process and worker may be of different versions" in str(told)
    with pytest.raises(Refusal, match=r"pause has no field speed.*may be of different versions") as refused:
        _parse({"kind": "pause", "connector": "c", "body": {"speed": 1}})
    assert refused.value.status == 400


def test_what_a_newer_version_writes_beside_what_is_known_is_ignored() -> None:
    """Records of the status topic, from workers that were replaced first in an upgrade."""
    state = StatusState()
    for record in (
        WorkerRecord(WorkerId("w"), Incarnation("i"), "enabled", 4, "9", 1),
        task_status("c", 0, State.RUNNING),
    ):
        key, value = encode(record)
        newer = {**json.loads(value or b""), "of_a_newer_version": {"a": [1]}}
        state = apply(state, decode(key, json.dumps(newer).encode()))
    assert state.tasks[TaskId(ConnectorName("c"), 0)].state is State.RUNNING
    assert [worker.slots for worker in state.workers.values()] == [4]
