"""Bulk actions from the list of connectors. Always a POST; the answer has a line for each connector."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from ringfence.access.authorise import principal_of
from ringfence.access.principal import Verb
from ringfence.access.routes import requires, somewhere
from ringfence.audit.trail import note
from ringfence.bulk import MOST, command, each
from ringfence.connectors.plural_forms import write_count
from ringfence.requests.commands import Delete
from ringfence.web.action_buttons import ACTIONS, Action
from ringfence.web.lists.connector_query import choose
from ringfence.web.views import is_fragment

DELETE = Action("delete", Delete, Verb.DELETE, "Deleted. Source offsets are kept.")
BULK: tuple[Action, ...] = (*ACTIONS, DELETE)


def view_of(chosen_action: Action) -> Callable[[HttpRequest], HttpResponse]:
    """Return the view of one action. Each action has its own route, because each needs its own permission."""

    @requires(POST=somewhere(chosen_action.verb).writing())
    @require_POST
    def act(request: HttpRequest) -> HttpResponse:
        return _act(request, chosen_action)

    return act


def _act(request: HttpRequest, action: Action) -> HttpResponse:
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
