"""The live tail of a topic: a page of the newest records, then new records, requested again and again.

The first request leaves the audit entry. Its answer contains a mark, signed for this user, which the next requests
present: what is followed, the position, and the start. Permissions are checked on each request.
"""

import json
import time
from typing import Any, Final
from urllib.parse import quote

from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from ringfence.access.authorise import Forbidden, principal_of
from ringfence.access.routes import requires, somewhere
from ringfence.access.verbs import Verb
from ringfence.api.topics import search
from ringfence.api.topics.readers import find_reader
from ringfence.api.topics.record_search import FIELDS, LEVELS, MOST, RecordSearch
from ringfence.dispatch import Refused
from ringfence.http.errors import ConnectError, bad_request
from ringfence.web.topics.pages import render_part, render_problem
from ringfence.web.topics.shown import show_record

LONGEST_SECONDS: Final = 900
"""After this time the user must confirm that they still watch, which leaves another entry."""
_SALT: Final = "ringfence.topic-tail"
_FILTERS: Final = ("partition", "key", "contains", "where", "isolation", "registry", "connector")


@requires(POST=somewhere(Verb.VIEW_DATA).writing())
@require_POST
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Show the newest records, filtered by the form, with the mark for the next request."""
    given = {key: str(request.POST[key]) for key in FIELDS if key in _FILTERS and request.POST.get(key)}
    context: dict[str, Any] = {"name": name, "path": quote(name, safe=""), "given": given, "section": "topics"}
    try:
        reader = find_reader(request, name, given.get("connector", ""))
        page_read = search.read_records(request, reader, RecordSearch.parse(given), "followed")
    except (ConnectError, Refused, Forbidden) as error:
        return render_problem(request, "ringfence/topics/tail.html", context, error)
    cursor = {str(each["partition"]): each["until"] for each in page_read["partitions"]}
    mark = _sign(request, name, given, cursor, int(time.time()))
    context |= _describe(page_read, given) | {"mark": mark, "minutes": LONGEST_SECONDS // 60}
    return render_part(request, "ringfence/topics/tail.html", context)


@requires(POST=somewhere(Verb.VIEW_DATA))
@require_POST
def go_on(request: HttpRequest, name: str) -> HttpResponse:
    """Show the records since the mark, the newest first, with the next mark."""
    context: dict[str, Any] = {"name": name, "path": quote(name, safe=""), "section": "topics"}
    try:
        given, cursor, began = _read(request, name)
        context["given"] = given
        if time.time() - began > LONGEST_SECONDS:
            return render_part(request, "ringfence/topics/tail_next.html", {**context, "over": True})
        asked = {**given, "from": "earliest", "cursor": json.dumps(cursor), "limit": str(MOST)}
        reader = find_reader(request, name, given.get("connector", ""))
        page_read = search.read_records(request, reader, RecordSearch.parse(asked))
    except (ConnectError, Refused, Forbidden) as error:
        if (
            isinstance(error, Refused) and error.retry
        ):  # Kafka or the workers are away: the next request continues from here
            return render_part(
                request,
                "ringfence/topics/tail_next.html",
                {**context, "mark": request.POST["mark"], "away": error.message},
            )
        return render_problem(request, "ringfence/topics/tail_next.html", context, error)
    page_read["records"].reverse()
    mark = _sign(request, name, given, {**cursor, **json.loads(page_read["cursor"])}, began)
    return render_part(
        request, "ringfence/topics/tail_next.html", {**context, **_describe(page_read, given), "mark": mark}
    )


def _describe(found: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    """behind: offsets that exist and are not read yet; waiting: those after the last stable offset."""
    committed_only = given.get("isolation", LEVELS[0]) == LEVELS[0]
    parts = found["partitions"]
    return {
        "found": found,
        "records": [show_record(each) for each in found["records"]],
        "behind": sum(max(0, (each["stable"] if committed_only else each["end"]) - each["until"]) for each in parts),
        "waiting": sum(each["end"] - each["stable"] for each in parts) if committed_only else 0,
        "isolation": given.get("isolation", LEVELS[0]),
    }


def _sign(request: HttpRequest, topic: str, given: dict[str, str], cursor: dict[str, int], began: int) -> str:
    who = principal_of(request)
    return signing.dumps([who.name, who.via, topic, given, cursor, began], salt=_SALT, compress=True)


def _read(request: HttpRequest, topic: str) -> tuple[dict[str, str], dict[str, int], int]:
    """Read the mark. Raises `ConnectError` for one that was not given to this user for this topic."""
    who = principal_of(request)
    try:
        name, via, of, given, cursor, began = signing.loads(str(request.POST.get("mark", "")), salt=_SALT)
    except (signing.BadSignature, ValueError) as error:
        raise bad_request("This server did not issue this link. Follow the topic again.") from error
    if (name, via, of) != (who.name, who.via, topic):
        raise bad_request("This link is for another user or topic. Follow the topic again.")
    return given, cursor, began
