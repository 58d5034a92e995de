"""Single sign-on: the redirect to the identity provider and back, and the logout there."""

import logging
import secrets
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.views import LogoutView
from django.core import signing
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET

from ringfence import quotas
from ringfence.access import sessions, throttle
from ringfence.access.authorise import ANYONE, PUBLIC, requires
from ringfence.access.client_address import address_of, group_of
from ringfence.access.identify import ISSUER_KEY
from ringfence.access.oidc.claims import Claims, LoginDenied, WrongGroups, read_groups
from ringfence.access.oidc.settings import CALLBACK, NotProven, OidcSettings, Unavailable
from ringfence.audit.accounts import VIA, account_for
from ringfence.audit.models import Outcome
from ringfence.audit.trail import record
from ringfence.connectors.sdk.egress import EGRESS_ALLOW
from ringfence.fencing.errors import Invalid
from ringfence.web.login import Login, LoginForm, ways_in

if TYPE_CHECKING:
    from ringfence.access.oidc.provider import Provider

_COOKIE: Final = "ringfence_sso"
_SALT: Final = "ringfence.single-sign-on"
_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
_LONGEST_NEXT: Final = 1500
_LONGEST_SID: Final = 255

_LOST = (
    "This login was not started in this browser, or it was started more than {minutes} minutes ago, or before another "
    "one. Log in again, at {start}"
)

_USED = "This login was completed already: the identity provider's answer counts once. Log in again"

log = logging.getLogger(__name__)


def find_provider() -> "Provider":
    """Return the configured provider. Raises Http404 without one."""
    oidc: OidcSettings | None = settings.OIDC
    if oidc is None:
        raise Http404("Single sign-on is not set up here")
    from ringfence.access.oidc.provider import provider
    from ringfence.worker_config import WorkerConfig

    try:
        return provider(oidc, WorkerConfig.from_environment().settings[EGRESS_ALLOW])
    except Invalid as error:
        raise ImproperlyConfigured(str(error)) from error


@requires(GET=PUBLIC)
@require_GET
def begin(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider. `?next=` is the final destination. A cookie keeps the data for the callback."""
    there = find_provider()
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    try:
        url = there.authorization_url(state, nonce, verifier)
    except Unavailable as error:
        return _refuse(request, str(error), 503)
    note = {"state": state, "nonce": nonce, "verifier": verifier, "next": _own_page(request, request.GET.get("next"))}
    response = HttpResponseRedirect(url)
    response.set_cookie(
        _COOKIE,
        signing.dumps(note, salt=_SALT),
        max_age=sessions.LOGIN_SECONDS,
        path=CALLBACK,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


@requires(GET=PUBLIC)
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Handle the redirect back from the provider, with a code or an error."""
    there = find_provider()
    try:  # anybody may send this, and it waits for the provider and for rows
        with quotas.STRANGERS.take(group_of(address_of(request))):
            response = _come_back(request, there)
    except quotas.TooMany:
        return _refuse(request, "Too many logins are in progress: load this page again", 429, 1)
    response.delete_cookie(_COOKIE, path=CALLBACK, samesite="Lax")
    return response


def _come_back(request: HttpRequest, there: "Provider") -> HttpResponse:
    note = _read_note(request)
    state = request.GET.get("state", "")
    if note is None or not secrets.compare_digest(note["state"].encode(), state.encode()):
        start = there.settings.redirect_uri.removesuffix(CALLBACK) + "/ui/login"
        return _refuse(request, _LOST.format(minutes=sessions.LOGIN_SECONDS // 60, start=start), 400)
    if not sessions.use_state(state):
        return _refuse(request, _USED, 400)
    if error := request.GET.get("error", ""):
        return _refuse(request, _explain(error), 403)
    limits = throttle.keys(address_of(request))
    if wait := throttle.wait_seconds(limits):
        return _refuse(request, f"Too many failed attempts: wait {wait} s, then try again.", 429, wait)
    address, who, message = address_of(request), "", ""
    try:
        claims = there.exchange(
            request.GET.get("code", ""), note["nonce"], note["verifier"], issuer=request.GET.get("iss", "")
        )
        message = f"subject {claims['sub']} of {there.settings.issuer}"
        name = claims.get(there.settings.name_claim)
        who = name if isinstance(name, str) else ""
        groups = read_groups(there.settings.groups_file) if there.settings.groups_file else {}
        user = account_for(claims, there.settings, groups, address)
    except Unavailable as error:
        return _refuse(request, str(error), 503)
    except (ImproperlyConfigured, WrongGroups) as error:
        log.error("Single sign-on: %s", error)  # noqa: TRY400 - the message says it all
        return _refuse(request, "Single sign-on is misconfigured: the reason is in the server's log", 503)
    except (NotProven, LoginDenied) as error:
        if isinstance(error, NotProven):
            throttle.record_failure(limits)
        message = ". ".join(filter(None, (message, str(error))))
        record("login", user=who, via=VIA, address=address, outcome=Outcome.REFUSED, message=message[:1000])
        return _refuse(request, str(error), 403)
    request.session.flush()
    login(request, user, backend=_BACKEND)
    request.session[ISSUER_KEY] = there.settings.issuer
    sessions.remember(request, there.settings.issuer, str(claims["sub"]), _sid_of(claims))
    record("login", user=user.username, via=VIA, address=address, outcome=Outcome.DONE, message=message[:1000])
    return HttpResponseRedirect(_own_page(request, note["next"]) or Login.next_page)


def _sid_of(claims: Claims) -> str:
    """Return the provider's session id, "" if it sends none."""
    session_id = claims.get("sid")
    return session_id if isinstance(session_id, str) and len(session_id) <= _LONGEST_SID else ""


def _read_note(request: HttpRequest) -> dict[str, str] | None:
    try:
        note: Any = signing.loads(request.COOKIES.get(_COOKIE, ""), salt=_SALT, max_age=sessions.LOGIN_SECONDS)
    except signing.BadSignature:
        return None
    return {key: str(value) for key, value in note.items()}


def _explain(error: str) -> str:
    """Explain a provider's error. Its description is left out, because anyone who makes the link can write it."""
    if error == "access_denied":
        return (
            "The identity provider did not let you in: you cancelled, or you are not assigned to this application "
            "there. Log in again, or ask an administrator of the provider to assign you"
        )
    code = "".join(each for each in error if each.isascii() and (each.isalnum() or each == "_"))[:40]
    return (
        f"The identity provider answered with the error {code or 'unknown'}. Log in again; if the error persists, an "
        "administrator should compare client id, redirect URI and scopes with what is registered there"
    )


def _own_page(request: HttpRequest, address: str | None) -> str:
    """Return the address if it is a page of this server, otherwise ""."""
    allowed = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if address and allowed and address.startswith("/") and len(address) <= _LONGEST_NEXT else ""


def _refuse(request: HttpRequest, message: str, status: int, wait: int = 0) -> HttpResponse:
    """Show the login page with an error."""
    form = LoginForm(data={})
    form.errors.clear()
    form.add_error(None, message.rstrip(".") + ".")
    context = {"section": "login", "form": form, **ways_in(""), "form_at": settings.LOGIN_URL}
    response = render(request, Login.template_name, context, status=status)
    if wait:
        response["Retry-After"] = str(wait)
    return response


class Logout(LogoutView):
    """Ends the session here. A session from single sign-on has another at the provider, and a page links
    to its logout.
    """

    access = {"POST": ANYONE}
    http_method_names = ["post", "options"]
    next_page = "/ui/login"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        by_provider = ISSUER_KEY in request.session and settings.OIDC is not None
        response = super().post(request, *args, **kwargs)
        return HttpResponseRedirect("/ui/login/sso/ended") if by_provider else response


@requires(GET=PUBLIC)
@require_GET
def offer_logout_there(request: HttpRequest) -> HttpResponse:
    """Show a page with a link to the provider's logout. A form could not redirect there: `form-action` forbids other
    sites.
    """
    there = find_provider()
    back = there.settings.redirect_uri.removesuffix(CALLBACK) + "/ui/login"
    try:
        url = there.end_session_url(back)
    except Unavailable:
        url = ""
    context = {"section": "login", "provider": there.settings.host, "end_url": url}
    return render(request, "ringfence/logged_out.html", context)
