"""What the buttons do. Always POST; the answer is one line next to them, and the state changes only from the topics."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence import dispatch
from ringfence.dispatch import Refused
from ringfence.web.views import is_fragment


@dataclass(frozen=True, slots=True)
class Action:
    """A button: the leader's command, and what to say once it is written."""

    kind: str
    body: dict[str, Any]
    told: str


ACTIONS = {
    "pause": Action("pause", {}, "Pause requested. Tasks commit what they have, then rest."),
    "resume": Action("resume", {}, "Resume requested."),
    "stop": Action("stop", {}, "Stop requested. Tasks commit what they have, then end."),
    "restart": Action("restart", {"include_tasks": True, "only_failed": False}, "Restart of all tasks requested."),
    "restart-failed": Action(
        "restart", {"include_tasks": True, "only_failed": True}, "Restart of the failed tasks requested."
    ),
    "delete": Action("delete", {}, "Deleted. Its source offsets are kept."),
    "reset-offsets": Action("reset_offsets", {}, "Offsets reset. Resume to start from the beginning."),
}


@require_POST
def act(request: HttpRequest, name: str, action: str) -> HttpResponse:
    """Carry out one of ACTIONS. Deleting and resetting ask for the name once more."""
    chosen = ACTIONS.get(action)
    if chosen is None:
        raise Http404(f"There is no action {action}")
    if action in ("delete", "reset-offsets") and request.POST.get("confirm") != name:
        return _told(request, name, "bad", "The name does not match: nothing was changed.", 400)
    answer = _carry_out(request, name, chosen.kind, chosen.body, chosen.told)
    if action == "delete" and answer.status_code < 400:
        if is_fragment(request):
            return HttpResponse(status=204, headers={"HX-Redirect": "/ui/connectors"})
        return HttpResponseRedirect("/ui/connectors")
    return answer


@require_POST
def restart_task(request: HttpRequest, name: str, task: int) -> HttpResponse:
    """Start one task again."""
    return _carry_out(request, name, "restart_task", {"task": task}, f"Restart of task {task} requested.")


def _carry_out(request: HttpRequest, name: str, kind: str, body: dict[str, Any], told: str) -> HttpResponse:
    try:
        dispatch.command(kind, name, body, user=getattr(request, "ringfence_user", ""))
    except Refused as refused:
        return _told(request, name, "bad", refused.message, refused.status)
    return _told(request, name, "motion", told, 200)


def _told(request: HttpRequest, name: str, tone: str, text: str, status: int) -> HttpResponse:
    if not is_fragment(request) and status < 400:
        return HttpResponseRedirect(f"/ui/connectors/{quote(name, safe='')}")
    template = "ringfence/parts/notice.html" if is_fragment(request) else "ringfence/error.html"
    context = {"tone": tone, "text": text, "title": "That did not work", "code": status}
    response = render(request, template, context, status=status)
    response["HX-Trigger"] = "ringfence-refresh"
    return response
