"""Lists of accounts, grants, tokens and audit entries. They are read-only; changes have pages of their own."""

import json
from datetime import UTC
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Max, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from ringfence.access.authorise import everywhere, principal_of, requires, somewhere
from ringfence.access.models import Grant, Token
from ringfence.access.principal import Verb, display_name
from ringfence.audit.models import AuditEntry, Outcome
from ringfence.audit.trail import entries
from ringfence.console.page_parts import (
    AUDIT,
    NOTHING,
    Filter,
    Table,
    indent_json,
    links,
    list_context,
    moment,
    page,
    page_of,
    render_live,
    whole,
)
from ringfence.fencing.clock import epoch_ms
from ringfence.requests.quota import QUOTAS

_ADMINISTERS = requires(GET=everywhere(Verb.ADMIN))
_READS = requires(GET=somewhere(Verb.VIEW_CONFIG))
_SINCE_MS = {"hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}


def _search(request: HttpRequest, rows: QuerySet[Any], *fields: str) -> QuerySet[Any]:
    """Return the rows in which each word of `?q=` is part of one of the fields."""
    for word in request.GET.get("q", "").replace("\x00", "").split()[:10]:
        condition = Q()
        for field in fields:
            condition |= Q(**{f"{field}__icontains": word})
        rows = rows.filter(condition)
    return rows


@_ADMINISTERS
@require_safe
def accounts(request: HttpRequest) -> HttpResponse:
    """List accounts with their permissions: `?q=&page=`."""
    rows = _search(request, User.objects.order_by("username"), "username").prefetch_related("grants", "identities")
    page_rows = page_of(request, rows)
    headers = ("Account", "State", "Roles and permissions", "Last login", "Change")
    table = Table(headers, [_account(row) for row in page_rows], [row.username for row in page_rows])
    more: dict[str, Any] = {"new": ("/ui/settings/people/new", "New account"), "empty": "There are no accounts yet."}
    return render_live(request, "table", "Accounts", AUDIT, table=table, **more, **list_context(request, page_rows))


def _account(row: User) -> tuple[str | SafeString, ...]:
    name = quote(row.username, safe="")
    at = f"/ui/settings/people/{name}"
    turn = ("disable", "Disable") if row.is_active else ("enable", "Enable")
    last = row.last_login
    ways = links(
        (f"{at}/rights", "Permissions"),
        (f"{at}/grant", "Grant"),
        (f"{at}/password", "Password"),
        (f"{at}/token", "New token"),
        (f"{at}/{turn[0]}", turn[1]),
        *_link(row, at),
        asking=("Grant", "Password", "New token", "Disable", "Enable", "Link", "Unlink"),
    )
    may = ", ".join(map(str, row.grants.all())) or "nothing"
    logged_in = moment(int(last.astimezone(UTC).timestamp() * 1000)) if last else "never"
    return row.username, "active" if row.is_active else "disabled", may, logged_in, ways


def _revoke(address: str) -> SafeString:
    return links((address, "Revoke"), asking=("Revoke",))


def _link(row: User, at: str) -> list[tuple[str, str]]:
    """Return the action to link or unlink the identity provider, if one is configured."""
    if settings.OIDC is None:
        return []
    linked = any(each.issuer == settings.OIDC.issuer for each in row.identities.all())
    return [(f"{at}/unlink", "Unlink")] if linked else [(f"{at}/link", "Link")]


@_ADMINISTERS
@require_safe
def grants(request: HttpRequest) -> HttpResponse:
    """List roles and permissions, each on a pattern of connector names: `?q=&page=`."""
    rows = Grant.objects.select_related("user").order_by("user__username", "pattern")
    page_rows = page_of(request, _search(request, rows, "user__username", "what", "pattern", "topics"))
    table = Table(
        ("Account", "Roles and permissions", "On connectors", "Topics", "Quotas", "Change"),
        [
            (row.user.get_username(), row.what, row.pattern, row.topics,
             ", ".join(f"{value:,} {QUOTAS[name]}" for name, value in row.set_quotas.items()) or "default",
             "by groups" if row.by_groups else _revoke(f"/ui/settings/roles/{row.pk}/take"))
            for row in page_rows
        ],
        [row.pk for row in page_rows],
    )  # fmt: skip
    says = (
        "A grant gives roles or permissions on the connectors whose names match a pattern. Grants from groups of the "
        "identity provider are set again at each login."
    )
    more: dict[str, Any] = {
        "new": ("/ui/settings/people", "Grant to an account"),
        "empty": "There are no grants yet.",
    }
    return render_live(
        request, "table", "Roles", AUDIT, table=table, says=says, **more, **list_context(request, page_rows)
    )


@_ADMINISTERS
@require_safe
def tokens(request: HttpRequest) -> HttpResponse:
    """List tokens with their permissions, never their text. `?q=&page=`."""
    rows = Token.objects.select_related("user").order_by("-created_ms", "-id")
    page_rows = page_of(request, _search(request, rows, "name", "user__username", "pattern", "topics"))
    table = Table(
        ("Token", "Account", "Begins with", "At most", "On connectors", "Topics", "State", "Last used", "Expires",
         "Change"),
        [
            (row.name, row.user.get_username(), f"{row.hint}…", row.what, row.pattern, row.topics, row.state,
             moment(row.last_used_ms), moment(row.expires_ms) if row.expires_ms else "never",
             _revoke(f"/ui/settings/tokens/{row.pk}/revoke") if row.state == "valid" else NOTHING)
            for row in page_rows
        ],
        [row.pk for row in page_rows],
    )  # fmt: skip
    says = "A token can do at most what its account may, within its own roles and pattern."
    more: dict[str, Any] = {
        "new": ("/ui/settings/people", "New token of an account"),
        "empty": "There are no tokens yet.",
    }
    return render_live(
        request, "table", "Tokens", AUDIT, table=table, says=says, **more, **list_context(request, page_rows)
    )


@_READS
@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """List the audit trail: all of it with `admin` everywhere, otherwise for connectors whose configuration the user
    may read.
    """
    rows = entries(principal_of(request))
    actions = sorted(set(rows.order_by().values_list("action", flat=True).distinct()[:200]))
    filters = (
        _filter(request, "outcome", "Outcome", [(str(one), str(one)) for one in Outcome]),
        _filter(request, "action", "Action", [(one, one) for one in actions]),
        _filter(request, "since", "Time", [(word, f"the last {word}") for word in _SINCE_MS]),
    )
    for each in filters:
        if each.current_value and each.name == "since":
            rows = rows.filter(time_ms__gte=epoch_ms() - _SINCE_MS[each.current_value])
        elif each.current_value:
            rows = rows.filter(**{each.name: each.current_value})
    searched = ("user", "connector", "action", "request", "message", "address", "request_id")
    matches = _search(request, rows, *searched)
    until, count = _hold_back(request, matches)
    page_rows = page_of(request, matches.filter(pk__lte=until))
    table = Table(
        ("Time", "Who", "Action", "Connector", "Request", "Outcome", "Message"),
        [
            (links((f"/ui/settings/audit/{row.pk}", moment(row.time_ms))), _who(row), row.action,
             row.connector or NOTHING, row.request, whole(row.outcome), row.message[:200])
            for row in page_rows
        ],
        [row.pk for row in page_rows],
    )  # fmt: skip
    more = {"empty": "No entries.", "until": until, "held_back": count, **list_context(request, page_rows, filters)}
    return render_live(request, "table", "Audit trail", AUDIT, table=table, **more)


def _hold_back(request: HttpRequest, rows: QuerySet[AuditEntry]) -> tuple[int, int]:
    """Return the newest entry to show, and how many there are since: `until` is the newest one that an open page has.
    Rows that came in above those that are being read would move them.
    """
    text = request.GET.get("until", "")
    until = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
    newest = rows.aggregate(newest=Max("pk"))["newest"] or 0
    return (until, rows.filter(pk__gt=until).count()) if until else (newest, 0)


def _filter(request: HttpRequest, name: str, word: str, options: list[tuple[str, str]]) -> Filter:
    choice = request.GET.get(name, "")
    return Filter(name, word, options, choice if choice in {value for value, _ in options} else "")


def _who(row: AuditEntry) -> str:
    return display_name(row.user, row.via)


@_READS
@require_safe
def audit_entry(request: HttpRequest, number: int) -> HttpResponse:
    """Show one entry, with before and after."""
    row = entries(principal_of(request)).filter(pk=number).first()
    if row is None:
        raise Http404(f"There is no audit entry {number} that you may see")
    facts = [
        ("Time", moment(row.time_ms)), ("Who", _who(row)), ("Address", row.address or NOTHING), ("Action", row.action),
        ("Request", row.request), ("Request id", row.request_id or NOTHING),
        ("Connector", row.connector or NOTHING), ("Outcome", row.outcome),
        ("Status", str(row.status or NOTHING)), ("Message", row.message or NOTHING),
        ("Settings that differ", ", ".join(json.loads(row.changed)) or NOTHING),
    ]  # fmt: skip
    context: dict[str, Any] = {"facts": facts, "was": indent_json(row.before), "became": indent_json(row.after)}
    return page(request, "console/entry.html", f"Audit entry {row.pk}", **context)


urls = [
    path("settings/people", accounts),
    path("settings/roles", grants),
    path("settings/tokens", tokens),
    path("settings/audit", audit),
    path("settings/audit/<int:number>", audit_entry),
]
