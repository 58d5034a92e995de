"""Folds the events of a task or a fencing round into one row: an attempt has about seven steps, a crash loop many
attempts.

The steps of one attempt are one row, and so are attempts in a row that failed with the same message, until another
event of their connector intervenes: a command, or the round of a different generation. The steps of a round are folded
separately, since tasks are prepared during it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ringfence.connectors.plural_forms import write_count
from ringfence.error_class import describe_error, split_class
from ringfence.projection.models import Event

_BAD = ("failed", "lost")
_ROUND = -1


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an attempt, from its event."""

    event: Event
    generation: int
    attempt: int
    stage: str
    message: str
    worker: str

    @property
    def failed(self) -> bool:
        return self.stage in _BAD


def fold(events: Iterable[Event]) -> list[list[Event]]:
    """Group events, newest first: the steps of one task or one round, or a single event. The newest
    group comes first.
    """
    groups: list[list[Event]] = []
    open_groups: dict[str, dict[int, tuple[int, list[Event]]]] = {}
    """By connector and task (a round: -1): the generation of the open group, and the group."""
    attempts: dict[int, tuple[int, str]] = {}
    """By the group's identity: its oldest attempt so far, and the message with which its attempts failed."""
    for event in events:
        of_connector = open_groups.setdefault(event.connector, {})
        key = _ROUND if event.type == "round" else event.task if event.type == "task" else None
        if key is None:
            of_connector.clear()
            groups.append([event])
            continue
        generation = int(json.loads(event.body).get("generation") or 0)
        if key == _ROUND:
            for other in [each for each, (belongs, _) in of_connector.items() if belongs != generation]:
                del of_connector[other]
        body = json.loads(event.body)
        attempt, failed_with = int(body.get("attempt") or 0), _failure_of(body)
        belongs, group = of_connector.get(key, (None, []))
        before = attempts.get(id(group))
        is_next = before is not None and before[0] != attempt and not (failed_with and before[1] == failed_with)
        if belongs != generation or is_next:
            group = []
            of_connector[key] = generation, group
            groups.append(group)
        group.append(event)
        attempts[id(group)] = attempt, failed_with or (before[1] if before and len(group) > 1 else "")
    return groups


def _failure_of(body: Mapping[str, object]) -> str:
    """Return how an attempt failed, "" for any other step."""
    return f"{body.get('stage')}: {body.get('message')}" if body.get("stage") in _BAD else ""


def steps_of(group: Sequence[Event]) -> list[Step]:
    """Return the steps of a group, newest first; [] if it is not a task's."""
    steps = []
    for event in group:
        if event.type == "task":
            body = json.loads(event.body)
            generation, attempt = (int(body.get(name) or 0) for name in ("generation", "attempt"))
            stage, message, worker = (str(body.get(name) or "") for name in ("stage", "message", "worker"))
            steps.append(Step(event, generation, attempt, stage, message, worker))
    return steps


def headline(group: Sequence[Event]) -> str:
    """Describe the group in one line."""
    if group[0].type == "round":
        return _headline_of_round(group)
    steps = steps_of(group)
    failures = [step for step in steps if step.failed]
    if not failures:
        return group[0].summary
    newest, messages = failures[0], {step.message for step in failures}
    attempts = len({(step.generation, step.attempt) for step in steps})
    times = f"failed (attempt {newest.attempt})"
    if len(failures) > 1:
        times = f"failed {write_count(len(failures), 'time')} in {write_count(attempts, 'attempt')}"
    since = f", {steps[0].stage} since then" if not steps[0].failed else ""
    message = describe_error(*split_class(newest.message))
    error = "" if not message else f". {'The newest error: ' if len(messages) > 1 else ''}{message}"
    return f"Task {group[0].task}: {times}{since}{error}"


def _headline_of_round(group: Sequence[Event]) -> str:
    """Return the newest stage of the round, and how often it failed before."""
    failed = sum(json.loads(event.body).get("stage") == "failed" for event in group[1:])
    tries = f" ({failed} failed {'try' if failed == 1 else 'tries'} before)" if failed else ""
    return group[0].summary + tries


@dataclass(frozen=True, slots=True)
class Attempts:
    """Consecutive attempts of a task that ended alike, the newest steps first."""

    task: int
    first: int
    last: int
    steps: Sequence[Step]

    @property
    def count(self) -> int:
        return len({(step.generation, step.attempt) for step in self.steps})

    @property
    def bad(self) -> bool:
        return any(step.failed for step in self.steps)

    @property
    def text(self) -> str:
        """Describe all of it in one line."""
        which = f"attempts {self.first} to {self.last}" if self.count > 1 else f"attempt {self.last}"
        where = f" on {self.newest.worker}" if self.newest.worker and self.count == 1 else ""
        times = f"{self.count} times " if self.count > 1 else ""
        detail = f": {self.newest.message}" if self.newest.message else ""
        return f"Task {self.task}, {which}{where}: {times}{self.newest.stage}{detail}"

    @property
    def newest(self) -> Step:
        return next((step for step in self.steps if step.failed), self.steps[0])


def fold_attempts(events: Iterable[Event], redact: Callable[[str], str]) -> list[Attempts]:
    """Group task events, newest first, by attempt. Consecutive attempts that failed with the same message become one.

    redact: removes secrets from messages.
    """
    attempts: dict[tuple[int, int, int], list[Step]] = {}
    for raw in steps_of(list(events)):
        step = replace(raw, message=redact(raw.message))
        attempts.setdefault((step.event.task or 0, step.generation, step.attempt), []).append(step)
    groups: list[Attempts] = []
    last_of: dict[int, int] = {}
    for (task, _, attempt), steps in attempts.items():
        one = Attempts(task, attempt, attempt, steps)
        place = last_of.get(task)
        if place is not None and one.bad and groups[place].bad and groups[place].newest.message == one.newest.message:
            same = groups[place]
            groups[place] = Attempts(task, attempt, same.last, [*same.steps, *steps])
            continue
        last_of[task] = len(groups)
        groups.append(one)
    return groups
