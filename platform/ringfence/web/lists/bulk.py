"""Bulk actions from the list of connectors: GET asks, POST acts, and its answer has a line for each connector."""

import time
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.audit.trail import note
from ringfence.bulk import MOST, command, each
from ringfence.connectors.plural_forms import write_count
from ringfence.engine.leader.commands import Delete
from ringfence.web.action_buttons import ACTIONS, Button
from ringfence.web.lists.connector_query import choose
from ringfence.web.views import is_fragment

DELETE = Button(
    "delete",
    Delete,
    Verb.DELETE,
    "Deleted. Source offsets are kept.",
    "Delete",
    "Tasks commit what they have and end, and older tasks are fenced. Records in Kafka and source offsets are kept: a "
    "new connector with the same name continues from there.",
    "trash-2",
)
BULK: tuple[Button, ...] = (*ACTIONS, DELETE)
_ASKING: Final = ("restart", "stop", "delete")
"""The names of the actions that ask first: the others take nothing away."""


def view_of(chosen_action: Button) -> Callable[[HttpRequest], HttpResponse]:
    """Return the view of one action. Each action has its own route, because each needs its own permission."""

    asks = chosen_action.name in _ASKING
    permission = somewhere(chosen_action.verb)

    @requires(**({"GET": permission} if asks else {}), POST=permission.writing())
    @require_http_methods(["GET", "HEAD", "POST"] if asks else ["POST"])
    def act(request: HttpRequest) -> HttpResponse:
        return _act(request, chosen_action) if request.method == "POST" else _ask(request, chosen_action)

    return act


def _ask(request: HttpRequest, action: Button) -> HttpResponse:
    """Show the confirmation over the list: `?count=`, of connectors, and `?tasks=`, "" for all of theirs. The list's
    form says which.
    """
    count = _read_count(request.GET.get("count", "")) or 0
    context = {"action": action, "count": count, "tasks": _read_count(request.GET.get("tasks", ""))}
    context["typed"] = f"delete {count}" if action is DELETE else ""
    return render(request, "ringfence/parts/bulk_ask.html", context)


def _read_count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _act(request: HttpRequest, action: Button) -> HttpResponse:
    """Act on `connector`, given once or more; or on `all` that match the filters, with `expected`, the number that was
    displayed.
    """
    reason = request.POST.get("reason", "").strip()[:1000] if action is DELETE else ""
    problem, names = "", list(dict.fromkeys(request.POST.getlist("connector")))
    if request.POST.get("all"):
        selection = choose(request.POST.dict(), principal_of(request), int(time.time() * 1000))
        names = list(selection.sorted_rows.values_list("name", flat=True)[: MOST + 1])
        if str(len(names)) != request.POST.get("expected") and len(names) <= MOST:
            match = "matches" if len(names) == 1 else "match"
            count = write_count(len(names), "connector")
            problem = f"{count} {match} now, not as many as were shown. Nothing was done: check again."
    if not names:
        problem = problem or "No connector is selected. Nothing was done."
    elif len(names) > MOST:
        problem = f"At most {MOST:,} connectors at once. Nothing was done: narrow the search."
    elif action is DELETE and request.POST.get("confirm") != f"delete {len(names)}":
        problem = f"Type “delete {len(names)}” to confirm. Nothing was done."
    elif action is DELETE and not reason:
        problem = "Give a reason for the audit trail. Nothing was done."
    if problem:
        note(request, problem)
        return _answer(request, {"problem": problem, "results": []}, 409 if request.POST.get("all") else 400)
    work = command(action.command, principal_of(request).name)
    results = each(request, names, [action.verb], work, reason)
    refusals = [result for result in results if not result.ok]
    context = {"results": refusals + [result for result in results if result.ok], "refused": len(refusals)}
    return _answer(request, {**context, "done": len(results) - len(refusals), "action": action}, 200)


def _answer(request: HttpRequest, context: dict[str, object], status: int) -> HttpResponse:
    template = "ringfence/parts/bulk_results.html" if is_fragment(request) else "ringfence/bulk_results.html"
    response = render(request, template, {**context, "section": "connectors"}, status=status)
    response["HX-Trigger"] = "ringfence-refresh"
    return response
