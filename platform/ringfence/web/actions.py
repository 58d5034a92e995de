"""What the buttons do. Always POST; the answer is one line next to them, and the state changes only from the topics."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.access.routes import on_connector, requires
from ringfence.access.verbs import Verb
from ringfence.audit.trail import note
from ringfence.dispatch import Refused
from ringfence.requests import commands
from ringfence.requests.commands import Command
from ringfence.web.views import is_fragment


@dataclass(frozen=True, slots=True)
class Action:
    """A button: its name in the path, the leader's command, the verb it needs, what to say once it is written."""

    name: str
    command: Callable[[str], Command[None]]
    verb: Verb
    told: str


ACTIONS = (
    Action("pause", commands.Pause, Verb.OPERATE, "Pause requested. Tasks commit what they have, then rest."),
    Action("resume", commands.Resume, Verb.OPERATE, "Resume requested."),
    Action("stop", commands.Stop, Verb.OPERATE, "Stop requested. Tasks commit what they have, then end."),
    Action(
        "restart",
        lambda name: commands.Restart(name, include_tasks=True, only_failed=False),
        Verb.OPERATE,
        "Restart of all tasks requested.",
    ),
    Action(
        "restart-failed",
        lambda name: commands.Restart(name, include_tasks=True, only_failed=True),
        Verb.OPERATE,
        "Restart of the failed tasks requested.",
    ),
)


def view_of(chosen: Action) -> Callable[[HttpRequest, str], HttpResponse]:
    """The view of one action, with a route of its own since each needs its own verb."""

    @requires(POST=on_connector(chosen.verb).writing())
    @require_POST
    def act(request: HttpRequest, name: str) -> HttpResponse:
        return _carry_out(request, name, chosen.command(name), chosen.told)

    return act


@requires(POST=on_connector(Verb.OPERATE).writing())
@require_POST
def restart_task(request: HttpRequest, name: str, task: int) -> HttpResponse:
    """Start one task again."""
    return _carry_out(request, name, commands.RestartTask(name, task), f"Restart of task {task} requested.")


def _carry_out(request: HttpRequest, name: str, command: Command[None], told: str) -> HttpResponse:
    try:
        dispatch.command(command, user=principal_of(request).name)
    except Refused as refused:
        return _answer(request, name, "bad", refused.message, refused.status)
    return _answer(request, name, "motion", told, 200)


def _answer(request: HttpRequest, name: str, tone: str, text: str, status: int) -> HttpResponse:
    if not is_fragment(request) and status < 400:
        return HttpResponseRedirect(f"/ui/connectors/{quote(name, safe='')}")
    if status >= 400:
        note(request, text)
    template = "ringfence/parts/notice.html" if is_fragment(request) else "ringfence/error.html"
    context = {"tone": tone, "text": text, "title": "The action failed", "code": status}
    response = render(request, template, context, status=status)
    response["HX-Trigger"] = "ringfence-refresh"
    return response
