"""The web side of a request: query a worker, or have the leader carry out a command, and wait for the answer.

A command that times out is unknown, never "failed": the message says what it waited for. During a change of the leader,
a command is refused without effect, with an answer that says so (`passing`). Such a command is sent again, as a new
one, until the same deadline. Whoever reads after its answer sees what it wrote (`read_your_writes`).
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, cast

from ringfence import transport
from ringfence.fencing import stages
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.heartbeats.cluster_view import look
from ringfence.projection import cluster_topics
from ringfence.quotas import COMMANDS, QUESTIONS, Lane, TooMany, asking, waiting
from ringfence.read_your_writes import answered, wait_for_rows
from ringfence.requests.request import ACCOUNT, Answer, Command, Question, SentCommand
from ringfence.requests.request import Refusal as Refusal

COMMAND_TIMEOUT = 90.0

_BACKOFF = Backoff(0.05, 0.5)
_TOO_LATE_SECONDS = 2.0
"""Seconds. With less time left, a command is not sent again: "nothing was changed" is a better answer
than "unknown".
"""


@dataclass(frozen=True, slots=True)
class CommandResult(Generic[Answer]):
    """The result of a command. offset: the last config topic offset that it wrote; value: the answer of its kind."""

    offset: int | None
    value: Answer


def command(
    request: Command[Answer], *, timeout: float = COMMAND_TIMEOUT, user: str = "", await_rows: bool = True
) -> CommandResult[Answer]:
    """Have the leader carry out a command. Raises `Refusal` with Kafka Connect's status and words.

    await_rows: whether to return not before the database shows what was written, for a caller that reads it itself. The
    next requests wait for that in any case.
    """
    if (lost := cluster_topics.find_lost()) is not None:
        raise Refusal(503, f"Nothing was changed. {lost.reason}")
    if not request.health:
        _refuse_in_vain(leader=True)
    deadline = Deadline.after(timeout)
    message: SentCommand = {"kind": request.name, "connector": request.on, "body": request.body(), "user": user}

    def ask_leader() -> dict[str, Any]:
        arguments = {"command": {**message, "request_id": uuid.uuid4().hex}}
        queue = "health" if request.health else "leader"
        awaited = f"the leader's answer to {request.name!r}"
        with _measure("leader") as answers:
            answers.append(transport.ask("ringfence.leader.command", queue, arguments, deadline, awaited))
        return answers[0]

    with nullcontext() if request.health else _turn(COMMANDS):
        answer = _repeat(ask_leader, deadline)
        with stages.stage("note"):
            answered.note(user, answer)
        if await_rows:
            with stages.stage("rows"):
                wait_for_rows(answer, deadline)
    offset = answer.get("offset")
    return CommandResult(offset if isinstance(offset, int) else None, cast(Answer, answer.get("value")))


def ask(question: Question[Answer], timeout: float | None = None) -> Answer:
    """Return a worker's answer, within `timeout` or the question's own limit, in seconds. Raises `Refusal`."""
    _refuse_in_vain(leader=False)
    deadline = Deadline.after(question.seconds if timeout is None else timeout)
    awaited = f"a worker's plugin process ({question.name.replace('_', ' ')})"

    def ask_worker() -> dict[str, Any]:
        arguments = {ACCOUNT: asking.get(), **question.to_wire()}
        with _measure(question.name) as answers:
            answers.append(transport.ask(question.task(), "plugins", arguments, deadline, awaited, question.early))
        return answers[0]

    with _turn(QUESTIONS):
        answer = _repeat(ask_worker, deadline) if question.again else ask_worker()
    return cast(Answer, answer.get("value"))


@contextmanager
def _measure(name: str) -> Iterator[list[dict[str, Any]]]:
    """Measure a request to a worker: the stages in it, and the rest, which is the way there and back."""
    answers: list[dict[str, Any]] = []
    with stages.collect() as way, stages.stage("way"):
        yield answers
    there = stages.parse(answers[0].pop(stages.FIELD, None)) if answers else {}
    way["way"] -= sum(there.values())
    stages.add({f"{name}.{part}": ms for part, ms in {**there, **way}.items()})


def _refuse_in_vain(*, leader: bool) -> None:
    """Raise `Refusal` with 503 at once if no one can take the request. A change of the leader is waited for instead."""
    vitals = look.vitals()
    if reason := vitals.leader_refusal if leader else vitals.refusal:
        raise Refusal(503, reason, retry=True)


@contextmanager
def _turn(lane: Lane) -> Iterator[None]:
    """Wait for a free place in the account's lane. Raises `Refusal` with 429 if too much is in progress."""
    try:
        with waiting(), lane.take():
            yield
    except TooMany as many:
        raise Refusal(429, many.message, retry=True) from many


def _repeat(ask: Callable[[], dict[str, Any]], deadline: Deadline) -> dict[str, Any]:
    """Repeat the request while the answer is that nothing was changed, for a temporary reason."""
    failures = 0
    while True:
        try:
            return ask()
        except Refusal as refused:
            failures += 1
            pause = _BACKOFF.pause(failures)
            if not refused.passing or deadline.remaining <= pause + _TOO_LATE_SECONDS:
                raise
        time.sleep(pause)
