"""The views. One URL serves a page and, for htmx, the part of it."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from ringfence import dispatch
from ringfence.access.authorise import principal_of
from ringfence.access.principal import Verb
from ringfence.access.routes import requires, somewhere
from ringfence.api.share_groups import cached_reports
from ringfence.api.share_groups.readers import Readers, find_readers
from ringfence.dispatch import Refusal
from ringfence.requests.questions import ShareTimeline
from ringfence.web.share_groups.offset_strips import draw, name_offsets, read_pieces
from ringfence.web.share_groups.views import PAGE, list_rows, one, path_of
from ringfence.web.views import is_fragment, with_token

_SECONDS = 8.0
"""The longest wait for Kafka. After it, the page shows the last known data."""
_LARGEST = 2**31 - 1


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def share_groups(request: HttpRequest) -> HttpResponse:
    """All visible share groups of the cluster, connectors' first."""
    last, who = cached_reports.look_at_list(_SECONDS), principal_of(request)
    rows = []
    if last.answer is not None:
        rows = list_rows(find_readers(last.answer["worker_group"]), who, last.answer)
    template = "ringfence/share/list.html" if is_fragment(request) else "ringfence/share/list_page.html"
    return render(request, template, {"rows": rows, "seen": last, "section": "share-groups"})


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def share_group(request: HttpRequest, name: str) -> HttpResponse:
    """One group. `?page=`: of its partitions."""
    readers = _readers(request, name)
    number = _page_of(request.GET.get("page", ""))
    last = cached_reports.look_at_one(name, _SECONDS, (number - 1) * PAGE)
    if last.status == 404 and not readers.of(name):
        raise Http404(last.problem)
    context = {**one(readers, principal_of(request), name, last, number), "section": "share-groups"}
    template = "ringfence/share/group.html" if is_fragment(request) else "ringfence/share/group_page.html"
    return render(request, template, context)


@requires(GET=somewhere(Verb.VIEW))
@require_safe
@with_token
def timeline(request: HttpRequest, name: str) -> HttpResponse:
    """`?topic=&partition=&step=`: the records of `__share_group_state` about a partition, replayed up to a step."""
    _readers(request, name)
    topic, number = request.GET.get("topic", ""), request.GET.get("partition", "")
    if not topic or not (number.isascii() and number.isdigit() and int(number) <= _LARGEST):
        raise Http404("A timeline shows one partition: set ?topic=&partition=")
    context: dict[str, Any] = {"group": name, "path": path_of(name), "topic": topic, "partition": int(number)}
    try:
        answer = dispatch.ask(ShareTimeline(name, topic, int(number)), _SECONDS)
        context |= _step(answer, request.GET.get("step", ""))
    except Refusal as error:
        if error.status == 404:
            raise Http404(error.message) from error
        context |= {"problem": error.message}
    template = "ringfence/share/timeline.html" if is_fragment(request) else "ringfence/share/timeline_page.html"
    return render(request, template, {**context, "section": "share-groups"})


def _page_of(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1


def _readers(request: HttpRequest, name: str) -> Readers:
    """Raises `Forbidden` if the group may not be seen, or Http404 if it is unknown."""
    try:
        readers = cached_reports.readers_now()
    except Refusal as error:
        raise Http404(f"Share group {name} is not known here yet. {error.message}") from error
    readers.authorise(request, Verb.VIEW, name)
    return readers


def _step(answer: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the step to show, by default the newest, with its neighbours in words."""
    steps = answer["steps"]
    if not steps:
        return {"found": answer, "steps": []}
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else len(steps)
    position = min(max(1, number), len(steps))
    step = steps[position - 1]
    strip = draw(read_pieces(step["strip"], step["archived"]))
    changed_pieces = read_pieces(step["changed"], step["archived"])
    archived_text = name_offsets(read_pieces(step["archived"]))
    return {
        "found": answer,
        "steps": steps,
        "chosen": position,
        "step": step,
        "strip": strip,
        "changed": changed_pieces,
        "archived": archived_text,
        "before": max(1, position - 1),
        "after": min(len(steps), position + 1),
    }
