"""The console's frame: what stands at the side, for those who may see it."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from ringfence.access.authorise import principal_of
from ringfence.access.principal import EVERYBODY_HERE, NOBODY, Principal
from ringfence.access.verbs import Verb

Allowed = Callable[[Principal], bool]


def _administers(who: Principal) -> bool:
    return who.may_everywhere(Verb.ADMIN)


def _views(who: Principal) -> bool:
    return who.may_somewhere(Verb.VIEW)


def _reads(who: Principal) -> bool:
    return who.may_somewhere(Verb.VIEW_CONFIG)


GROUPS: tuple[tuple[str, tuple[tuple[str, str, str, Allowed], ...]], ...] = (
    (
        "Operations",
        (
            ("Overview", "/console/", "dashboard", lambda who: who is not NOBODY),
            ("Connectors", "/console/connectors/", "cable", _views),
            ("Transactions", "/console/transactions/", "receipt_long", _views),
            ("Workers", "/console/workers/", "dns", _views),
            ("Stuck operations", "/console/stuck/", "hourglass_top", _views),
        ),
    ),
    (
        "Access",
        (
            ("Accounts", "/console/auth/user/", "group", _administers),
            ("Roles", "/console/access/grant/", "badge", _administers),
            ("Tokens", "/console/access/token/", "key", _administers),
            ("Sessions", "/console/sessions/", "devices", lambda who: who is not NOBODY),
            ("Audit trail", "/console/audit/auditentry/", "history", _reads),
        ),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """What unfold shows at the side. A link that is missing here is refused by the server, too."""
    who = principal_of(request)
    return [
        {
            "title": title,
            "separator": number > 0,
            "items": [
                {
                    "title": word,
                    "icon": icon,
                    "link": link,
                    "permission": lambda _request, allowed=allowed: allowed(who),
                    "active": request.path == link if link == "/console/" else request.path.startswith(link),
                }
                for word, link, icon, allowed in items
            ],
        }
        for number, (title, items) in enumerate(GROUPS)
    ]


def environment(request: HttpRequest) -> list[str] | None:
    """Said on every page to whom no login is asked of."""
    return ["No login asked", "warning"] if principal_of(request) is EVERYBODY_HERE else None
