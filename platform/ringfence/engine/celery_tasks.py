"""The Celery tasks: commands for the leader, and questions for any worker. Source tasks never run in Celery.

This is the only place that converts a request's deadline.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from ringfence import redis_clock, redis_results, telemetry
from ringfence.celery import app
from ringfence.engine import fair_places
from ringfence.engine.browsing.readers import Readers
from ringfence.engine.celery_answers import catch_refusals
from ringfence.engine.celery_host import COMMAND_THREADS, QUESTION_THREADS, WAKE
from ringfence.engine.config_topic import ReadState
from ringfence.engine.fair_places import FairPlaces, NoPlace
from ringfence.engine.leader.command_service import CommandService
from ringfence.engine.plugins import PluginHost
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.preflight.validation import Modes, Validation
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.dead_letters import DeadLetters
from ringfence.engine.queries.previews import Previews
from ringfence.engine.queries.proofs import Proofs
from ringfence.engine.questions import QUESTIONS, WorkerQuestion
from ringfence.fencing import stages
from ringfence.fencing.clock import Deadline
from ringfence.requests.request import Refusal, SentCommand
from ringfence.worker_config import WorkerConfig

_Answer = Callable[..., dict[str, object] | None]
task: Callable[..., Callable[[_Answer], _Answer]] = app.task  # Celery's decorator has no types


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of this worker process that commands and questions use."""

    commands: CommandService
    plugins: PluginHost
    config: WorkerConfig
    validation: Validation
    modes: Modes
    previews: Previews
    dead_letters: DeadLetters
    topics: TopicRules
    offsets: ConnectorOffsets
    proofs: Proofs
    readers: Readers
    read_state: ReadState


_services: list[Services] = []
_threads = FairPlaces(QUESTION_THREADS)
_command_threads = FairPlaces(COMMAND_THREADS)


def provide(services: Services) -> None:
    """Set the services of this process. Call it once, before Celery takes its first task."""
    _services[:] = [services]


def _current() -> Services:
    if not _services:
        raise Refusal(503, "This worker is starting. Send the request again", passing=True)
    return _services[0]


@task(name=WAKE)
def wake() -> None:
    """Do nothing."""


@task(name="ringfence.leader.command")
def command(command: SentCommand, deadline: float) -> dict[str, object]:
    """Carry out a command, if its deadline has not passed."""

    telemetry.note({"ringfence.connector": command["connector"] or ""}, name=f"leader {command['kind']}")

    def call() -> dict[str, object]:
        commands, who = _current().commands, command.get("user", "") or None
        with _thread(_command_threads, who, f"The leader already carries out {_command_threads.each} commands"):
            return commands.execute(command, _limit(deadline))

    with _measure() as parts:
        answer = catch_refusals(call)
    return {**redis_results.write_ends_with(answer, command.get("user", "")), stages.FIELD: parts}


@contextmanager
def _measure() -> Iterator[stages.Stages]:
    """Collect the stages of this block, with what is in none of them as `other`."""
    began = time.perf_counter()
    with stages.collect() as parts:
        yield parts
    parts["other"] = (time.perf_counter() - began) * 1000 - sum(parts.values())


def _register(kind: type[WorkerQuestion[Any]]) -> None:
    @task(name=kind.task())
    def ask(deadline: float, account: str | None = None, **fields: object) -> dict[str, object]:
        def call() -> dict[str, object]:
            services, limit = _current(), _in_time(deadline)
            with _place(account):
                return {"ok": True, "value": kind.from_wire(fields).answer(services, limit)}

        with _measure() as parts:
            answer = catch_refusals(call)
        return {**answer, stages.FIELD: parts}


@contextmanager
def _thread(places: FairPlaces, account: str | None, busy: str) -> Iterator[None]:
    """Work for this account within the block. Raises `Refusal` if half of the threads do so already: one that waited
    would take a thread from the others. The web process asks again.
    """
    try:
        places.enter(account)
    except NoPlace as error:
        raise Refusal(503, f"{busy} of your account. Ask again in a moment", passing=True) from error
    try:
        yield
    finally:
        places.leave(account)


@contextmanager
def _place(account: str | None) -> Iterator[None]:
    """Answer for this account within the block, as `_thread`; what it asks of plugins counts for the account, too."""
    token = fair_places.account.set(account)
    try:
        with _thread(_threads, account, f"A worker already answers {_threads.each} questions"):
            yield
    finally:
        fair_places.account.reset(token)


for _kind in QUESTIONS:
    _register(_kind)


def _limit(deadline: float) -> Deadline:
    """Return the rest of a deadline on Redis' clock. Raises `Refusal` if Redis does not answer."""
    try:
        return Deadline.after(deadline - redis_clock.now())
    except RedisError as error:
        words = f"Redis does not answer ({type(error).__name__}), so the time left for this request is unknown"
        raise Refusal(503, f"{words}: nothing was changed. Send it again", passing=True) from error


def _in_time(deadline: float) -> Deadline:
    """As `_limit`, for requests that are useless after their deadline. Raises `Refusal` if it has passed."""
    limit = _limit(deadline)
    if limit.expired:
        raise Refusal(500, "Request timed out before a worker got to it: nothing was done. Send it again")
    return limit
