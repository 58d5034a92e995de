"""One action on many connectors, with a result for each, for API and pages. A failure does not stop the others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.http import HttpRequest

from ringfence import dispatch
from ringfence.access.authorise import Forbidden, authorise
from ringfence.access.principal import Verb
from ringfence.audit.trail import came_to
from ringfence.dispatch import Refusal
from ringfence.fencing.clock import Deadline
from ringfence.http.errors import ConnectError
from ringfence.requests.request import Command

MOST = 1000
AT_ONCE = 25
"""So many are done together: tasks of the first ones start during the rest, and others' commands come in between."""
Outcome = str | Forbidden | Refusal | ConnectError
"""A message, or why it was not done."""
_SECONDS = 240.0
_LATE = "Not started: the request ran out of time. Nothing was changed. Send the rest again."


@dataclass(frozen=True, slots=True)
class Result:
    """status: the HTTP status of the same request for this connector alone."""

    connector: str
    status: int
    message: str

    @property
    def ok(self) -> bool:
        return self.status < 400

    def fields(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def each(
    request: HttpRequest,
    names: Iterable[str],
    verbs: Iterable[Verb],
    work: Callable[[str, float], str],
    reason: str = "",
) -> list[Result]:
    """Call `work` for each name on which the caller has the permissions. `work(name, seconds)` returns a message.

    reason: for the audit entries of the changed connectors.
    """
    deadline = Deadline.after(_SECONDS)
    results = []
    for name in names:
        outcome: Outcome
        try:
            for verb in verbs:
                authorise(request, verb, name)
            if deadline.expired:
                raise Refusal(503, _LATE)
            outcome = work(name, min(dispatch.COMMAND_TIMEOUT, deadline.remaining))
        except (Forbidden, Refusal, ConnectError) as error:
            outcome = error
        results.append(_record(request, name, outcome, reason))
    return results


def together(
    request: HttpRequest,
    names: Iterable[str],
    verbs: Sequence[Verb],
    work: Callable[[Sequence[str], float], Mapping[str, str | Refusal | ConnectError]],
) -> list[Result]:
    """Call `work` for several names at a time, of those on which the caller has the permissions. `work(names, seconds)`
    returns a message for each, or why it was refused.
    """
    deadline, outcomes = Deadline.after(_SECONDS), dict[str, Outcome]()
    allowed = []
    for name in names:
        outcomes[name] = ""
        try:
            for verb in verbs:
                authorise(request, verb, name)
            allowed.append(name)
        except Forbidden as forbidden:
            outcomes[name] = forbidden
    for first in range(0, len(allowed), AT_ONCE):
        some = allowed[first : first + AT_ONCE]
        if deadline.expired:
            outcomes |= dict.fromkeys(some, Refusal(503, _LATE))
        else:
            outcomes |= work(some, min(dispatch.COMMAND_TIMEOUT, deadline.remaining))
    return [_record(request, name, outcome) for name, outcome in outcomes.items()]


def _record(request: HttpRequest, name: str, outcome: Outcome, reason: str = "") -> Result:
    """Return the result, and write it into the audit entry; reason: there, if the action was carried out."""
    match outcome:
        case str():
            result = Result(name, 200, outcome)
        case Forbidden():
            result = Result(name, 403, outcome.message)
        case Refusal():
            result = Result(name, outcome.status, outcome.message)
        case ConnectError():
            result = Result(name, outcome.status_code, outcome.message)
    came_to(request, name, result.status, reason if result.ok else result.message)
    return result


def command(make_command: Callable[[str], Command[None]], user: str) -> Callable[[str, float], str]:
    """Return the `work` for `each` that sends one command to the leader: `wanted(connector)`."""

    def work(name: str, seconds: float) -> str:
        dispatch.command(make_command(name), timeout=seconds, user=user, await_rows=False)
        return "done"

    return work
