"""Consumer groups: the list, and one group's partitions with their lag. Read from Kafka on each request."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence.access.authorise import principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api.v1 import consumer_groups
from ringfence.dispatch import Refusal
from ringfence.web.state_badges import Badge, Severity, group_look
from ringfence.web.views import is_fragment, with_token

_PAGE = 100
_STATES = {
    "Stable": Badge("Stable", "circle-check", Severity.OK, "It has members, and each knows its partitions."),
    "Empty": Badge("Empty", "circle-stop", Severity.REST, "It has no members. Its committed offsets are kept."),
}
_REBALANCING = Badge("Rebalancing", "loader", Severity.MOTION, "Its partitions are being assigned to its members.")
_MOVING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def groups(request: HttpRequest) -> HttpResponse:
    """`?search=&topic=`."""
    search, topic = (request.GET.get(key, "").strip()[:249] for key in ("search", "topic"))
    context: dict[str, Any] = {"search": search, "topic": topic, "section": "consumer-groups"}
    try:
        answer = consumer_groups.list_groups(principal_of(request), search, topic)
        rows = answer["results"]
        group_rows = [_row(each) for each in rows[:_PAGE]]
        context |= {
            "rows": [each for each in group_rows if not each["own"]],
            "own": [each for each in group_rows if each["own"]],
            "left_out": answer["left_out"] + len(rows[_PAGE:]),
        }
    except Refusal as error:
        context |= {"problem": error.message}
    template = "ringfence/groups/list.html" if is_fragment(request) else "ringfence/groups/list_page.html"
    return render(request, template, context)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def group(request: HttpRequest, name: str) -> HttpResponse:
    """Show one group."""
    context: dict[str, Any] = {"name": name, "path": quote(name, safe=""), "section": "consumer-groups"}
    try:
        details = consumer_groups.describe_group(principal_of(request), name)
        if details is None:
            raise Http404(f"There is no consumer group {name}, or it reads no topic that you may read")
        members = {each["member"]: each for each in details["members"]}
        partitions = [{**each, "reader": members.get(each["member"])} for each in details["partitions"]]
        waiting = [each for each in partitions if each["lag_to_end"] and each["lag_to_end"] > each["lag"]]
        context |= {
            "found": {**details, "partitions": partitions, "behind": _behind(details)},
            "look": _look(details["state"]),
            "waiting": waiting,
        }
    except Refusal as error:
        if error.status == 404:
            raise Http404(error.message) from error
        context |= {"problem": error.message}
    template = "ringfence/groups/group.html" if is_fragment(request) else "ringfence/groups/group_page.html"
    return render(request, template, context)


def _row(each: Mapping[str, Any]) -> dict[str, Any]:
    path = quote(each["group"], safe="")
    return {**each, "path": path, "look": _look(each["state"]), "behind": _behind(each)}


def _behind(each: Mapping[str, Any]) -> int:
    """Return the number of offsets behind open transactions."""
    return int((each["lag_to_end"] or 0) - (each["lag"] or 0))


def _look(state: str) -> Badge:
    return _REBALANCING if state in _MOVING else group_look(state, _STATES)
