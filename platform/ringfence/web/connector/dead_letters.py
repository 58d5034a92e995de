"""The Dead letters tab: failed records with their failures, and their replay with an outcome for each.

Reading records requires the `view-data` permission and leaves an audit entry. A replay requires `operate`, and a
preview first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST

from ringfence.access.authorise import on_connector, principal_of, requires
from ringfence.access.principal import Verb
from ringfence.api.v1 import dead_letters as dead_letters_api
from ringfence.audit.trail import note
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError, bad_request
from ringfence.projection.models import Connector
from ringfence.web.connector.record_text import RecordText, decode
from ringfence.web.connector.tab_page import record_failure, render_confirmation, tab
from ringfence.web.state_badges import Badge, Severity
from ringfence.web.views import find, is_fragment

_CLOSE: Final = '{"ringfence-close": null}'
_REPLAY_BADGES: Final = {
    "no": Badge("Waiting", "circle-dot", Severity.MOTION, "It was not replayed."),
    "yes": Badge("Replayed", "circle-check", Severity.OK, "It was replayed."),
    "undecided": Badge("Not decided", "loader", Severity.MOTION, "An open transaction hides whether it was replayed."),
    "unknown": Badge(
        "Unknown", "circle-question-mark", Severity.REST, "The topic could not be read to its end in time."
    ),
}
_VISIBILITY_BADGES: Final = {
    "aborted": Badge("Aborted", "circle-x", Severity.BAD, "Only read_uncommitted readers see it."),
    "open": Badge("Open", "circle-dot", Severity.MOTION, "Its transaction, or an earlier one, is not decided yet."),
}
_BECAME: Final = {
    "written": Badge("Written", "circle-check", Severity.OK, "It is in its topic, once."),
    "dropped": Badge("Dropped", "circle-check", Severity.OK, "A transform drops it."),
    "failed": Badge("Failed again", "circle-x", Severity.BAD, "It is unchanged."),
    "replayed": Badge("Replayed before", "circle-check", Severity.REST, "It is not written twice."),
    "undecided": Badge("Not decided", "loader", Severity.MOTION, "Nothing was changed: try again in a moment."),
    "missing": Badge("Not there", "circle-question-mark", Severity.REST, "Nothing was changed."),
}


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter for display. details: the content of its headers."""

    details: Mapping[str, Any]
    replay_badge: Badge
    badge: Badge | None
    key: RecordText
    value: RecordText
    headers: list[tuple[str, RecordText]]

    @property
    def place(self) -> str:
        """Identifies it in the forms, together with the topic of the original record."""
        return f"{self.details['partition']}:{self.details['offset']}:{self.details['topic']}"

    @property
    def waits(self) -> bool:
        return self.details["replayed"] != "yes" and self.badge is None


@tab("dead-letters", still=True)
def dead_letters(request: HttpRequest, row: Connector) -> dict[str, Any]:
    """Return the filters only. The dead letters themselves are read on request."""
    return {
        "dead_topic": dead_letters_api.topic_of(row),
        "stages": dead_letters_api.STAGES,
        "levels": dead_letters_api.LEVELS,
    }


@requires(POST=on_connector(Verb.VIEW_DATA).writing())
@require_POST
def records(request: HttpRequest, name: str) -> HttpResponse:
    """A page of dead letters: `stage`, `class`, `level`, `before`. A POST, because it leaves an audit entry."""
    row = find(name)
    filters = {key: str(request.POST.get(key, "")).strip() for key in ("stage", "class", "level", "before")}
    filters["level"] = filters["level"] or dead_letters_api.LEVELS[0]
    try:
        page = dead_letters_api.find_dead_letters(
            row, stage=filters["stage"], by=filters["class"], before=filters["before"], level=filters["level"]
        )
    except (ConnectError, Refusal) as error:
        return render_confirmation(
            request, row, "letters", {"problem": error.message, "asked": filters}, record_failure(request, error)
        )
    note(request, f"looked at dead letters in topic {page['topic']} as {filters['level']}")
    context = {"found": page, "asked": filters, "letters": [_letter(each) for each in page["letters"]]}
    return render_confirmation(request, row, "letters", context)


@requires(POST=on_connector(Verb.OPERATE))
@require_POST
def confirm_replay(request: HttpRequest, name: str) -> HttpResponse:
    """Show what a replay of the chosen dead letters, or of all matching ones, would do. Nothing is changed."""
    row = find(name)
    return _ask(request, row)


@requires(POST=on_connector(Verb.OPERATE).writing())
@require_POST
def replay(request: HttpRequest, name: str) -> HttpResponse:
    """Replay each `letter`, or with `what=all` all that match `stage` and `class`. The outcomes replace the list."""
    row = find(name)
    reason = str(request.POST.get("reason", "")).strip()
    try:
        places = None if _every(request) else [place for place, _ in _parse_chosen(request)]
        stage, by = str(request.POST.get("stage", "")), str(request.POST.get("class", ""))
        user = principal_of(request).name
        if places is not None:
            done = dead_letters_api.replay(row, user, places=places, reason=reason)
        else:
            done = dead_letters_api.replay(row, user, stage=stage, by=by, reason=reason)
    except (ConnectError, Refusal) as error:
        return _ask(request, row, record_failure(request, error, reason), problem=error.message, reason=reason)
    note(request, dead_letters_api.audit_text(done, reason))
    summary = dead_letters_api.count_outcomes(done["results"])
    rows = [(each, _BECAME[each["became"]]) for each in done["results"]]
    response = render_confirmation(
        request, row, "letters_replayed", {"said": summary, "rows": rows, "left": done["left"]}
    )
    if is_fragment(request):
        response["HX-Retarget"], response["HX-Reswap"], response["HX-Trigger"] = "#letters", "innerHTML", _CLOSE
    return response


def _every(request: HttpRequest) -> bool:
    return request.POST.get("what") == "all"


def _parse_chosen(request: HttpRequest) -> list[tuple[tuple[int, int], str]]:
    """Return the dead letters that a form names, each with the topic of its original record."""
    letters = []
    for text in request.POST.getlist("letter"):
        partition, _, rest = text.partition(":")
        offset, _, topic = rest.partition(":")
        if not (partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()):
            raise bad_request("A dead letter is identified by its partition and offset: nothing was replayed.")
        if len(partition) > 9 or len(offset) > 18:
            raise bad_request("There is no such dead letter: nothing was replayed.")
        letters.append(((int(partition), int(offset)), topic))
    if not letters:
        raise bad_request("No dead letter is selected: select at least one.")
    if len(letters) > dead_letters_api.MOST_PLACES:
        raise bad_request(f"At most {dead_letters_api.MOST_PLACES} dead letters can be replayed at a time.")
    return letters


def _ask(request: HttpRequest, row: Connector, status: int = 200, **more: Any) -> HttpResponse:
    """Show the confirmation, with the selection carried along."""
    filters = {key: str(request.POST.get(key, "")).strip() for key in ("stage", "class")}
    context: dict[str, Any] = {"asked": filters, "every": _every(request), "most": dead_letters_api.MOST_PLACES, **more}
    context["dead_topic"] = dead_letters_api.topic_of(row)
    if not context["every"]:
        try:
            letters = _parse_chosen(request)
        except ConnectError as error:
            return render_confirmation(
                request, row, "letters_confirm", {**context, "problem": error.message}, error.status_code
            )
        context["chosen"] = [f"{partition}:{offset}:{topic}" for (partition, offset), topic in letters]
        context["into"] = sorted({topic for _, topic in letters})
    return render_confirmation(request, row, "letters_confirm", {**context, "may_do": True}, status)


def _letter(letter: Mapping[str, Any]) -> Letter:
    return Letter(
        details=letter,
        replay_badge=_REPLAY_BADGES[letter["replayed"]],
        badge=_VISIBILITY_BADGES.get(letter["seen"]),
        key=decode(letter["key"], letter["key_size"]),
        value=decode(letter["value"], letter["value_size"]),
        headers=[(name, decode(base64_text, size)) for name, base64_text, size in letter["headers"]],
    )


urlpatterns = [
    path("", dead_letters),
    path("/records", records),
    path("/question", confirm_replay),
    path("/replay", replay),
]
