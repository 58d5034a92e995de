"""`POST /ui/login/sso/logout`: the identity provider reports that a user's session there has ended."""

import logging
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from ringfence.access import sessions, throttle
from ringfence.access.authorise import PUBLIC, requires
from ringfence.access.client_address import address_of
from ringfence.access.oidc.settings import NotProven, Unavailable
from ringfence.audit.accounts import VIA
from ringfence.audit.models import Outcome
from ringfence.audit.trail import record
from ringfence.web.sign_on import find_provider

_LONGEST: Final = 16_384

log = logging.getLogger(__name__)


@requires(POST=PUBLIC)
@csrf_exempt
@require_POST
@never_cache
def end_sessions(request: HttpRequest) -> HttpResponse:
    """OpenID Connect Back-Channel Logout 1.0. The token in the form authenticates the provider. Answers 200, or 400."""
    there = find_provider()
    limits = throttle.keys(f"logout {address_of(request)}")
    if wait := throttle.wait_seconds(limits):
        return _refuse(f"too many wrong logout tokens: wait {wait} s", 429, wait)
    logout_token = request.POST.get("logout_token", "")
    if not logout_token or len(logout_token) > _LONGEST:
        return _refuse("logout_token is missing")
    try:
        token = there.judge_logout(logout_token)
        accounts = sessions.end_at_provider(there.settings.issuer, token)
    except (NotProven, Unavailable, sessions.TokenReplay) as error:
        if isinstance(error, NotProven):
            throttle.record_failure(limits)
        log.warning("Back-channel logout by %s was refused: %s", there.settings.host, error)
        return _refuse("the logout token is not valid")
    for account in sorted(set(accounts)):
        message = f"logged out at {there.settings.issuer}, sessions ended: {accounts.count(account)}"
        record("logout", user=account, via=VIA, address=address_of(request), outcome=Outcome.DONE, message=message)
    return HttpResponse(status=200)


def _refuse(why: str, status: int = 400, wait: int = 0) -> HttpResponse:
    headers = {"Retry-After": str(wait)} if wait else {}
    return HttpResponse(f"{why}\n", status=status, content_type="text/plain", headers=headers)
