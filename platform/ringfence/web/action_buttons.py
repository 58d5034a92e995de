"""The views behind the action buttons. Always a POST; the answer is one line beside the button, and the displayed state
changes only when the topics do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_http_methods, require_POST

from ringfence import dispatch
from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.audit.trail import note
from ringfence.dispatch import Refusal
from ringfence.engine.leader import commands
from ringfence.projection.health import known_health
from ringfence.projection.models import find_connector
from ringfence.requests.request import Command
from ringfence.web.connector.header import count_open
from ringfence.web.connector.tab_page import render_confirmation
from ringfence.web.state_badges import look_of
from ringfence.web.views import is_fragment, render_gone


@dataclass(frozen=True, slots=True)
class Action:
    """An action. name: its path segment; command: makes the leader's command; verb: the permission it needs;
    effect_text: the message after it is written.
    """

    name: str
    command: Callable[[str], Command[None]]
    verb: Verb
    effect_text: str


@dataclass(frozen=True, slots=True)
class Button(Action):
    """An action on connectors. word, effect: what its confirmation says, of one connector or of several; icon: its icon
    there and in the palette.
    """

    word: str
    effect: str
    icon: str


ACTIONS = (
    Button(
        "pause",
        commands.Pause,
        Verb.OPERATE,
        "Pause requested. Tasks commit what they have, then pause.",
        "Pause",
        "Tasks commit what they have and pause. They keep their slots.",
        "pause",
    ),
    Button(
        "resume",
        commands.Resume,
        Verb.OPERATE,
        "Resume requested.",
        "Resume",
        "Tasks continue from their committed offsets.",
        "play",
    ),
    Button(
        "stop",
        commands.Stop,
        Verb.OPERATE,
        "Stop requested. Tasks commit what they have, then end.",
        "Stop",
        "Tasks commit what they have and end; their slots become free. Configuration and offsets are kept: "
        "Resume starts them again.",
        "circle-stop",
    ),
    Button(
        "restart",
        lambda name: commands.Restart(name, include_tasks=True, only_failed=False),
        Verb.OPERATE,
        "Restart of all tasks requested.",
        "Restart",
        "Tasks commit or abort what is open, end, and start again from their committed offsets.",
        "rotate-cw",
    ),
    Button(
        "restart-failed",
        lambda name: commands.Restart(name, include_tasks=True, only_failed=True),
        Verb.OPERATE,
        "Restart of the failed tasks requested.",
        "Restart what has failed",
        "Failed tasks start again from their committed offsets. The others keep running.",
        "rotate-cw",
    ),
)


def view_of(button: Button) -> Callable[[HttpRequest, str], HttpResponse]:
    """Return the view of one action. Each action has its own route, because each needs its own permission."""

    @requires(GET=on_connector(button.verb), POST=on_connector(button.verb).writing())
    @require_http_methods(["GET", "HEAD", "POST"])
    @ensure_csrf_cookie
    def act(request: HttpRequest, name: str) -> HttpResponse:
        """Carry out the action on POST. GET shows the confirmation."""
        if request.method != "POST":
            row = find_connector(name)
            if row is None:
                return render_gone(request, name)
            context = {"action": button, "look": look_of(row, known_health()), "open_count": count_open(row)}
            return render_confirmation(request, row, "act", context)
        return _carry_out(request, name, button.command(name), button.effect_text)

    return act


@requires(POST=on_connector(Verb.OPERATE).writing())
@require_POST
def restart_task(request: HttpRequest, name: str, task: int) -> HttpResponse:
    """Restart one task."""
    return _carry_out(request, name, commands.RestartTask(name, task), f"Restart of task {task} requested.")


def _carry_out(request: HttpRequest, name: str, command: Command[None], message: str) -> HttpResponse:
    try:
        dispatch.command(command, user=principal_of(request).name, await_rows=False)
    except Refusal as error:
        return _answer(request, name, "bad", error.message, error.status)
    return _answer(request, name, "motion", message, 200)


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
