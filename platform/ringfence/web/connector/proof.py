"""The Proof tab: count whether the connector was exactly once, follow the count, and read and download its report."""

import json
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_POST, require_safe

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.v1 import proofs
from ringfence.api.v1.proofs import WORDS, to_text
from ringfence.audit.trail import note
from ringfence.dispatch import Refusal
from ringfence.history.models import ProofRun
from ringfence.http.errors import ConnectError
from ringfence.projection.models import Connector
from ringfence.web.connector.tab_page import record_failure, tab
from ringfence.web.state_badges import Badge, Severity
from ringfence.web.views import find, is_fragment

_VERDICTS: Final = {
    "exact": Badge("Exactly once", "circle-check", Severity.OK, WORDS["exact"]),
    "failed": Badge("Not exactly once", "circle-x", Severity.BAD, WORDS["failed"]),
    "incomplete": Badge("Not all counted", "circle-question-mark", Severity.REST, WORDS["incomplete"]),
}
_RESULTS: Final = {
    "ok": Badge("Proved", "circle-check", Severity.OK, "It was counted, and it holds."),
    "failed": Badge("Failed", "circle-x", Severity.BAD, "It was counted, and it does not hold."),
    "unknown": Badge("Cannot be counted", "circle-question-mark", Severity.REST, "The reason is beside it."),
    "note": Badge("Note", "circle-dot", Severity.REST, "No fault of this connector."),
}
_COUNTS: Final = (
    ("visible", "visible to read_committed"),
    ("aborted", "aborted, hidden"),
    ("open", "in open transactions"),
    ("gaps", "gaps"),
    ("doubles", "doubles"),
    ("transactions", "transactions"),
    ("dead_letters", "dead letters"),
    ("others", "of other producers"),
)
_FORMS: Final = {"json": "application/json", "txt": "text/plain; charset=utf-8"}


@tab("proof", still=True)
def proof(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Show the newest count, and earlier ones."""
    runs = list(ProofRun.objects.filter(connector=row.name).defer("report").order_by("-number")[1 : proofs.KEPT])
    return {**_describe(proofs.newest(row.name)), "earlier_proofs": runs}


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def run(request: HttpRequest, name: str) -> HttpResponse:
    """Show one count, the newest or `?number=`. The part refreshes itself while the count runs."""
    row = find(name)
    number = request.GET.get("number", "")
    proof_run = proofs.find(
        row.name, int(number) if number.isascii() and number.isdigit() and len(number) < 9 else None
    )
    return _render(request, row, proof_run)


@requires(POST=on_connector(Verb.OPERATE).writing())
@require_POST
def count(request: HttpRequest, name: str) -> HttpResponse:
    """Start a count."""
    row = find(name)
    try:
        proof_run = proofs.start(row, principal_of(request).name)
    except (ConnectError, Refusal) as error:
        status = record_failure(request, error)
        context = {"tone": "bad", "text": error.message, "title": "Nothing was counted", "code": status}
        template = "ringfence/parts/notice.html" if is_fragment(request) else "ringfence/error.html"
        return render(request, template, context, status=status)
    note(request, f"counted exactly-once proof {proof_run.number}")
    return _render(request, row, proof_run)


@requires(GET=on_connector(Verb.VIEW))
@require_safe
def download(request: HttpRequest, name: str, number: int, form: str) -> HttpResponse:
    """Download the report: `json`, or `txt` for people."""
    row = find(name)
    if form not in _FORMS:
        raise Http404("A report is available as json and as txt")
    try:
        proof_run = proofs.find(row.name, number)
    except ConnectError as error:
        raise Http404(error.message) from error
    text = json.dumps(proofs.serialize(proof_run), indent=2) if form == "json" else to_text(proof_run)
    response = HttpResponse(text, content_type=_FORMS[form])
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in row.name)
    response["Content-Disposition"] = f'attachment; filename="proof-{safe}-{number}.{form}"'
    return response


def _render(request: HttpRequest, row: Connector, proof_run: ProofRun) -> HttpResponse:
    may = principal_of(request).verbs_on(row.name)
    return render(request, "ringfence/parts/proof_run.html", {"connector": row, "may": may, **_describe(proof_run)})


def _describe(proof_run: ProofRun | None) -> dict[str, Any]:
    if proof_run is None:
        return {"run": None}
    report = proofs.report_of(proof_run)
    context: dict[str, Any] = {
        "run": proof_run,
        "run_state": proofs.state_of(proof_run),
        "run_error": proofs.error_of(proof_run),
        "run_percent": 100 * proof_run.done // proof_run.total if proof_run.total else None,
        "report": report,
    }
    if report is not None:
        counts = [(words, report["counts"][name]) for name, words in _COUNTS]
        checks = [(_RESULTS[each["result"]], each) for each in report["checks"]]
        context |= {"verdict": _VERDICTS[report["verdict"]], "counts": counts, "checks": checks}
        context["read_topics"] = [
            {**each, "held": [one for one in each["partitions"] if one["end"] > one["first"]]}
            for each in report["topics"]
        ]
        context["texts"] = [
            (json.dumps(each["partition"], ensure_ascii=False), json.dumps(each["offset"], ensure_ascii=False))
            for each in report["offsets"]
        ]
    return context


urlpatterns = [
    path("", proof),
    path("/run", run),
    path("/count", count),
    path("/<int:number>/<str:form>", download),
]
