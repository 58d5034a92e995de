"""Authentication and authorisation of every request."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.utils.deprecation import MiddlewareMixin
from rest_framework.authentication import CSRFCheck

from ringfence import after_answer, quotas
from ringfence.access.authorise import Forbidden, Need, Reach, declarations, methods_of, need_of
from ringfence.access.client_address import address_of, group_of
from ringfence.access.identify import Nobody, identify
from ringfence.access.principal import Principal
from ringfence.audit.trail import Draft
from ringfence.fencing import stages
from ringfence.http.error_pages import answer, database_away, is_page, render_refused, too_many
from ringfence.http.errors import json_error
from ringfence.read_your_writes import answered

METRICS = "/metrics"
"""It has threads and a lane of its own."""
PLACE = "ringfence.place"
"""The key in an ASGI scope of the place for which the request has waited."""
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_LIMITED = (
    "A token with a limit may neither see nor end the sessions of its account: log in, or use a token that may do "
    "everything that the account may."
)


class AccessMiddleware(MiddlewareMixin):
    """1 refuse pages of other sites, 2 identify the sender, 3 check the permissions that the route declares, 4 audit
    writes.

    Sets `request.ringfence_principal`, and `request.ringfence_draft` for writes.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        quotas.asking.set(quotas.NOBODY)  # this thread has served other requests before
        quotas.current_hold.set(None)
        try:
            host = request.get_host()
        except DisallowedHost:
            return json_error(
                400,
                "This server is not known by that host name. Use the address it printed at its start, or name the host "
                "in RINGFENCE_ALLOWED_HOSTS.",
            )
        if request.method not in _SAFE_METHODS and _foreign(request, host):
            return json_error(403, "Requests that change something are not accepted from pages of other sites.")
        return None

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        """Return None to let the view run. Without the database, no sender can be identified and no write audited."""
        try:
            with stages.stage("access"):
                return self._check(request, view, kwargs)
        except (OperationalError, InterfaceError) as error:
            request.ringfence_draft = None  # type: ignore[attr-defined]  # nothing was begun that could be completed
            return database_away(request, error)

    def _check(self, request: HttpRequest, view: Callable[..., Any], kwargs: dict[str, Any]) -> HttpResponse | None:
        method = str(request.method)
        need = need_of(view, method)
        if need is not None and need.reach in (Reach.PUBLIC, Reach.SIGNED):
            # A stranger keeps the place while it waits: it has none among those of accounts.
            return None if method in _SAFE_METHODS else _enter(request, quotas.STRANGERS, group_of(address_of(request)))
        if need is None and any(declared_one.reach is Reach.PUBLIC for declared_one in declarations(view).values()):
            return _refuse_undeclared(request, view)
        who = identify(request)
        if isinstance(who, Nobody):
            return _unknown(request, who)
        request.ringfence_principal = who  # type: ignore[attr-defined]
        quotas.asking.set(who.name)
        if need is None:
            return _refuse_undeclared(request, view)
        return self._check_known(request, who, need, kwargs)

    def _check_known(
        self, request: HttpRequest, who: Principal, need: Need, kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        method = str(request.method)
        if method in _SAFE_METHODS and request.path != METRICS and (busy := _read(request, who.name)) is not None:
            return busy
        if who.via.startswith("session") and method not in _SAFE_METHODS and not is_page(request):
            reason = _csrf(request)
            if reason:
                return json_error(403, f"A write from a session needs its CSRF token ({reason}). Tokens need none.")
        try:
            with stages.stage("settle"):
                answered.settle(who.name, quotas.SETTLING)
                if method in _SAFE_METHODS:  # a reader sees the audit entries of its own writes complete
                    after_answer.settle(who.name, quotas.SETTLING)
        except quotas.TooMany as many:
            return too_many(request, many.message)
        if method not in _SAFE_METHODS and (busy := _enter(request, quotas.COMPUTING, who.name)) is not None:
            return busy
        name = str(kwargs["name"]) if need.reach is Reach.CONNECTOR else None
        draft = None
        if need.writes:
            draft = Draft(request, who, need.verbs[0] if need.verbs else None)
            request.ringfence_draft = draft  # type: ignore[attr-defined]
            if need.reach is not Reach.SOMEWHERE:  # or the view names the connectors itself
                draft.about(name or "")
        if need.reach is Reach.WHOLE and not who.is_whole_account:
            return render_refused(request, _LIMITED)
        missing = _missing(who, need, name)
        return render_refused(request, missing.message) if missing else None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        place: quotas.Hold | None = getattr(request, "ringfence_place", None)
        try:
            draft = getattr(request, "ringfence_draft", None)
            if draft is not None:
                draft.finish(response)
        finally:
            if place is not None:
                place.release()
        if response.status_code == 404 and request.resolver_match is None:
            return self._nowhere(request, response)
        return response

    def _nowhere(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Answer for a missing route. Only logged-in users learn which routes exist."""
        if request.path_info.startswith(settings.STATIC_URL):
            return response
        try:
            who = identify(request)
        except (OperationalError, InterfaceError) as error:
            return database_away(request, error)
        return _unknown(request, who) if isinstance(who, Nobody) else response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Handle errors of pages. The API's exception handler handles its own."""
        return render_refused(request, exception.message) if isinstance(exception, Forbidden) else None


def _enter(request: HttpRequest, lane: quotas.Lane, who: str) -> HttpResponse | None:
    """Take a place for the whole request, whatever its view does. Returns a refusal if there is none."""
    try:
        place = lane.hold(who)
    except quotas.TooMany as many:
        return too_many(request, many.message)
    request.ringfence_place = place  # type: ignore[attr-defined]
    if lane is quotas.COMPUTING:
        quotas.current_hold.set(place)
    return None


def _read(request: HttpRequest, who: str) -> HttpResponse | None:
    """Take a place among those who read, or that for which the request has waited (`web.asgi_handler`). Returns a
    refusal, which names who has to wait, if there is none.
    """
    place: quotas.Hold | None = getattr(request, "scope", {}).pop(PLACE, None)
    try:
        place = place or quotas.READING.hold(who)
    except quotas.TooMany as many:
        refusal = too_many(request, many.message)
        refusal.ringfence_waits = who  # type: ignore[attr-defined]
        return refusal
    request.ringfence_place = place  # type: ignore[attr-defined]
    quotas.current_hold.set(place)
    return None


def _missing(who: Principal, need: Need, name: str | None) -> Forbidden | None:
    """Return the refusal for the first missing permission."""
    for verb in need.verbs:
        match need.reach:
            case Reach.CONNECTOR:
                allowed = name is not None and who.may(verb, name)
            case Reach.SOMEWHERE:
                allowed = who.may_somewhere(verb)
            case _:
                allowed = who.may_everywhere(verb)
        if not allowed:
            return Forbidden(who, verb, "any" if need.reach is Reach.SOMEWHERE else name)
    return None


def _refuse_undeclared(request: HttpRequest, view: Callable[..., Any]) -> HttpResponse | None:
    """Let the view answer 405 for a method that it does not have. Any other undeclared route is a bug,
    and is refused.
    """
    answered = methods_of(view)
    if answered is not None and request.method not in answered:
        return None
    if answered is None and declarations(view):
        response = answer(request, 405, "Method not allowed", "HTTP 405 Method Not Allowed")
        response["Allow"] = ", ".join(declarations(view))
        return response
    return render_refused(request, "This route declares no permission, so it is closed: report this as a bug.")


def _unknown(request: HttpRequest, nobody: Nobody) -> HttpResponse:
    if nobody.wait:
        text = f"Too many wrong tokens from this address: wait {nobody.wait} s, then send the right one."
        return too_many(request, text, nobody.wait, "Too many tries")
    if is_page(request) and "Authorization" not in request.headers:
        return HttpResponseRedirect(_login(request))
    response = answer(
        request,
        401,
        "A token is required",
        "A token is required: Authorization: Bearer TOKEN, or HTTP Basic with the token as password.",
    )
    response["WWW-Authenticate"] = 'Basic realm="Ringfence", charset="UTF-8"'
    return response


def _login(request: HttpRequest) -> str:
    """Return the address of the login page, which leads back to the requested page."""
    if request.method != "GET" or request.headers.get("HX-Request") == "true":
        return str(settings.LOGIN_URL)
    raw = getattr(request, "scope", {}).get("raw_path")
    path = raw.decode("ascii", "replace") if raw else request.get_full_path().partition("?")[0]
    query = request.META.get("QUERY_STRING", "")
    return f"{settings.LOGIN_URL}?{urlencode({'next': f'{path}?{query}' if query else path})}"


def _foreign(request: HttpRequest, host: str) -> bool:
    """Return whether a browser sent this from another site's page. Tools send neither of these headers."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def _csrf(request: HttpRequest) -> str:
    """Return why the CSRF token is invalid, "" if it is valid. The API's views are exempt from Django's own check."""
    check = CSRFCheck(lambda _: HttpResponse())
    check.process_request(request)
    reason = check.process_view(request, lambda _: HttpResponse(), (), {})
    return str(reason) if reason else ""
