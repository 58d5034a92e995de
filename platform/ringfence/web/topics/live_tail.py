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

from ringfence.access.authorise import Forbidden, principal_of, requires, somewhere
from ringfence.access.principal import Verb
from ringfence.api import topics
from ringfence.api.topics import FIELDS, LEVELS, MOST, RecordSearch, find_reader
from ringfence.dispatch import Refusal
from ringfence.http.errors import ConnectError, bad_request
from ringfence.web.topics.pages import render_part, render_problem
from ringfence.web.topics.record_display import show_record

LONGEST_SECONDS: Final = 900
"""After this time the user must confirm that they still watch, which leaves another entry."""
_SALT: Final = "ringfence.topic-tail"
_FILTERS: Final = ("partition", "key", "contains", "where", "isolation", "registry", "connector")


@requires(POST=somewhere(Verb.VIEW_DATA).writing())
@require_POST
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Show the newest records, filtered by the form, with the mark for the next request."""
    fields = {key: str(request.POST[key]) for key in FIELDS if key in _FILTERS and request.POST.get(key)}
    context: dict[str, Any] = {"name": name, "path": quote(name, safe=""), "given": fields, "section": "topics"}
    try:
        reader = find_reader(request, name, fields.get("connector", ""))
        page = topics.read_records(request, reader, RecordSearch.parse(fields), "followed")
    except (ConnectError, Refusal, Forbidden) as error:
        return render_problem(request, "ringfence/topics/tail.html", context, error)
    cursor = {str(each["partition"]): each["until"] for each in page["partitions"]}
    mark = _sign(request, name, fields, cursor, int(time.time()))
    context |= _describe(page, fields) | {"mark": mark, "minutes": LONGEST_SECONDS // 60}
    return render_part(request, "ringfence/topics/tail.html", context)


@requires(POST=somewhere(Verb.VIEW_DATA))
@require_POST
def go_on(request: HttpRequest, name: str) -> HttpResponse:
    """Show the records since the mark, the newest first, with the next mark."""
    context: dict[str, Any] = {"name": name, "path": quote(name, safe=""), "section": "topics"}
    try:
        fields, cursor, began = _read(request, name)
        context["given"] = fields
        if time.time() - began > LONGEST_SECONDS:
            return render_part(request, "ringfence/topics/tail_next.html", {**context, "over": True})
        query = {**fields, "from": "earliest", "cursor": json.dumps(cursor), "limit": str(MOST)}
        reader = find_reader(request, name, fields.get("connector", ""))
        page = topics.read_records(request, reader, RecordSearch.parse(query))
    except (ConnectError, Refusal, Forbidden) as error:
        if (
            isinstance(error, Refusal) and error.retry
        ):  # Kafka or the workers are away: the next request continues from here
            return render_part(
                request,
                "ringfence/topics/tail_next.html",
                {**context, "mark": request.POST["mark"], "away": error.message},
            )
        return render_problem(request, "ringfence/topics/tail_next.html", context, error)
    page["records"].reverse()
    mark = _sign(request, name, fields, {**cursor, **json.loads(page["cursor"])}, began)
    return render_part(request, "ringfence/topics/tail_next.html", {**context, **_describe(page, fields), "mark": mark})


def _describe(page: dict[str, Any], fields: dict[str, str]) -> dict[str, Any]:
    """behind: offsets that exist and are not read yet; waiting: those after the last stable offset."""
    committed_only = fields.get("isolation", LEVELS[0]) == LEVELS[0]
    parts = page["partitions"]
    return {
        "found": page,
        "records": [show_record(each) for each in page["records"]],
        "behind": sum(max(0, (each["stable"] if committed_only else each["end"]) - each["until"]) for each in parts),
        "waiting": sum(each["end"] - each["stable"] for each in parts) if committed_only else 0,
        "isolation": fields.get("isolation", LEVELS[0]),
    }


def _sign(request: HttpRequest, topic: str, fields: dict[str, str], cursor: dict[str, int], began: int) -> str:
    who = principal_of(request)
    return signing.dumps([who.name, who.via, topic, fields, cursor, began], salt=_SALT, compress=True)


def _read(request: HttpRequest, topic: str) -> tuple[dict[str, str], dict[str, int], int]:
    """Read the mark. Raises `ConnectError` for one that was not given to this user for this topic."""
    who = principal_of(request)
    try:
        name, via, of, fields, cursor, began = signing.loads(str(request.POST.get("mark", "")), salt=_SALT)
    except (signing.BadSignature, ValueError) as error:
        raise bad_request("This server did not issue this link. Follow the topic again.") from error
    if (name, via, of) != (who.name, who.via, topic):
        raise bad_request("This link is for another user or topic. Follow the topic again.")
    return fields, cursor, began
