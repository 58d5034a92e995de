"""Error pages for people under `/ui/`, JSON everywhere else."""

import logging

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from ringfence.http.errors import explain_database_error, json_error

log = logging.getLogger(__name__)


def is_page(request: HttpRequest) -> bool:
    """Return whether the answer is for a browser."""
    return request.path_info == "/ui" or request.path_info.startswith("/ui/")


def answer(request: HttpRequest, code: int, title: str, text: str) -> HttpResponse:
    """Return a page for a browser, JSON for a tool."""
    if is_page(request):
        if request.headers.get("HX-Request") == "true" and (request.method == "POST" or _is_for_dialog(request)):
            return _render_part(request, code, title, text)
        # The badge of open incidents is left out: it would query the database, which may be what is down.
        context = {"code": code, "title": title, "text": text, "loud_incidents": 0}
        return render(request, "ringfence/error.html", context, status=code)
    return json_error(code, text)


def _is_for_dialog(request: HttpRequest) -> bool:
    return request.headers.get("HX-Target") == "ask"


def _render_part(request: HttpRequest, code: int, title: str, text: str) -> HttpResponse:
    """Return a line for htmx; in the dialog of confirmations, with a button that closes it."""
    template = "ringfence/parts/not_asked.html" if _is_for_dialog(request) else "ringfence/parts/notice.html"
    return render(request, template, {"tone": "bad", "title": title, "text": text}, status=code)


def too_many(request: HttpRequest, text: str, wait_s: int = 1, title: str = "Too many requests") -> HttpResponse:
    """Refuse for now. wait_s: when to send it again, in seconds."""
    response = answer(request, 429, title, text)
    response["Retry-After"] = str(wait_s)
    return response


def database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    """Report that the database does not answer."""
    log.error("The database does not answer: %s", error)
    return answer(request, 503, "The database does not answer", explain_database_error(error))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return answer(request, 400, "This request cannot be read", "HTTP 400 Bad Request")


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return answer(request, 403, "Not allowed", "HTTP 403 Forbidden")


def render_refused(request: HttpRequest, text: str) -> HttpResponse:
    """Return a refusal whose text names the missing permission; htmx shows it beside the control."""
    if is_page(request) and request.headers.get("HX-Request") == "true":
        return _render_part(request, 403, "Not allowed", text)
    return answer(request, 403, "Not allowed", text)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return answer(request, 403, "This page is too old", "The page's form token is not valid: reload it and try again.")


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return answer(request, 404, "There is nothing here", f"HTTP 404 Not Found: {request.path}")


def server_error(request: HttpRequest) -> HttpResponse:
    text = "Internal error. Whether the request was carried out is unknown; the server's log has the trace."
    return answer(request, 500, "Something went wrong", text)
