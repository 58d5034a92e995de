"""Redirects addresses of earlier releases, which bookmarks, messages and notes still have."""

import re
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.utils.http import escape_leading_slashes
from django.views.decorators.http import require_safe

from ringfence.access.authorise import ANYONE, requires

_MOVED: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"console", "/ui/"),
        (r"console/stuck", "/ui/stuck"),
        (r"console/auth/user", "/ui/settings/people"),
        (r"console/access/grant", "/ui/settings/roles"),
        (r"console/access/token", "/ui/settings/tokens"),
        (r"console/audit/auditentry", "/ui/settings/audit"),
        (r"console/audit/auditentry/([0-9]+)/change", r"/ui/settings/audit/\1"),
        (r"console/accounts/(.+)", r"/ui/settings/people/\1"),
        (r"console/grants/(.+)", r"/ui/settings/roles/\1"),
        (r"console/tokens/(.+)", r"/ui/settings/tokens/\1"),
        (r"console/sessions", "/ui/settings/sessions"),
        (r"console/sessions/(.+)", r"/ui/settings/sessions/\1"),
        (r"console/connectors/([^/]+)/transactions", r"/ui/connectors/\1/coordinators"),
        (r"console/connectors/([^/]+)/restart", r"/ui/connectors/\1/actions/restart"),
        (r"console/connectors/([^/]+)/tasks/[0-9]+/restart", r"/ui/connectors/\1/tasks"),
        (r"console/((?:connectors|workers|transactions|waiting|leader|share-groups)(?:/.+)?)", r"/ui/\1"),
        (r"ui/alerts", "/ui/incidents"),
        (r"ui/alerts/incidents/([0-9]+)", r"/ui/incidents/\1"),
        (r"ui/alerts/((?:rules|destinations)/.+)", r"/ui/incidents/\1"),
    )
)


def find_new_address(path: str) -> str:
    """Return where a page is now; "" for an address that never was one. path: without slashes at its ends; names
    in it are quoted as `PathMiddleware` leaves them.
    """
    for pattern, replacement in _MOVED:
        if match := pattern.fullmatch(path):
            return escape_leading_slashes(match.expand(replacement))
    return ""


@requires(GET=ANYONE)
@require_safe
def redirect_old(request: HttpRequest, address: str) -> HttpResponse:
    """Redirect to the page's address now, with the query."""
    target = find_new_address(address)
    if not target:
        raise Http404(f"There is no page {address}")
    query = request.META.get("QUERY_STRING", "")
    return HttpResponsePermanentRedirect(f"{target}?{query}" if query else target)
