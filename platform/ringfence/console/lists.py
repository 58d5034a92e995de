"""The console's lists: accounts, grants, tokens, the audit trail. They read; changes are pages of their own."""

import json
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import display

from ringfence.access.authorise import principal_of
from ringfence.access.models import Grant, Token
from ringfence.access.verbs import Verb
from ringfence.audit import listing
from ringfence.audit.models import AuditEntry
from ringfence.console.confirm_page import NOTHING

_STATES = {"valid": "success", "expired": "warning", "revoked": "danger"}
_OUTCOMES = {"done": "success", "refused": "warning", "failed": "danger", "unknown": "info"}


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") if ms else NOTHING


def links(*pairs: tuple[str, str]) -> SafeString:
    """Addresses and words."""
    return format_html('<span class="rf-links">{}</span>', format_html_join("", '<a href="{}">{}</a>', pairs))


class ReadOnly(ModelAdmin):  # type: ignore[misc]
    """A list that changes nothing. Who may see it is declared in `console.site`, and has been checked."""

    actions = None
    list_display_links: Any = None
    list_per_page = 50
    show_full_result_count = False
    title: ClassVar[str]

    @property
    def media(self) -> forms.Media:
        """No scripts: Django's (jQuery and 85 kB in all) are for actions, inline rows, pop-ups and slugs."""
        return forms.Media()

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return principal_of(request).may_everywhere(Verb.ADMIN)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        found: HttpResponse = super().changelist_view(request, {**(extra_context or {}), "title": self.title})
        return found


class Accounts(ReadOnly):
    """Accounts, with what each may do."""

    title = "Accounts"
    list_before_template = "console/before_accounts.html"
    list_display = ("username", "state", "may", "logged_in", "change")
    list_filter = ("is_active",)
    search_fields = ("username",)
    ordering = ("username",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return User.objects.prefetch_related("grants")

    @display(description="State", label={"active": "success", "disabled": "danger"})  # type: ignore[untyped-decorator]
    def state(self, row: User) -> str:
        return "active" if row.is_active else "disabled"

    @display(description="May")  # type: ignore[untyped-decorator]
    def may(self, row: User) -> str:
        grants = row.grants.all()
        return ", ".join(map(str, grants)) or "nothing"

    @display(description="Last login")  # type: ignore[untyped-decorator]
    def logged_in(self, row: User) -> str:
        return row.last_login.strftime("%Y-%m-%d %H:%M:%S") if row.last_login else "never"

    @display(description="Change")  # type: ignore[untyped-decorator]
    def change(self, row: User) -> SafeString:
        name = quote(row.username, safe="")
        turn = ("disable", "Disable") if row.is_active else ("enable", "Enable")
        return links(
            (f"/console/accounts/{name}/grant/", "Grant"),
            (f"/console/accounts/{name}/password/", "Password"),
            (f"/console/accounts/{name}/token/", "New token"),
            (f"/console/accounts/{name}/{turn[0]}/", turn[1]),
        )


class Grants(ReadOnly):
    """Roles and verbs, each on a pattern of connector names."""

    title = "Roles: who may do what, where"
    list_before_template = "console/before_grants.html"
    list_display = ("account", "what", "pattern", "topics", "change")
    search_fields = ("user__username", "what", "pattern", "topics")
    list_select_related = ("user",)
    ordering = ("user__username", "pattern")

    @display(description="Account")  # type: ignore[untyped-decorator]
    def account(self, row: Grant) -> str:
        return str(row.user.get_username())

    @display(description="Change")  # type: ignore[untyped-decorator]
    def change(self, row: Grant) -> SafeString:
        return links((f"/console/grants/{row.pk}/take/", "Take away"))


class Tokens(ReadOnly):
    """Tokens: what each may do at most, never its text."""

    title = "Tokens"
    list_before_template = "console/before_tokens.html"
    list_display = (
        "name",
        "account",
        "begins",
        "what",
        "pattern",
        "topics",
        "token_state",
        "used",
        "expires",
        "change",
    )
    search_fields = ("name", "user__username", "pattern", "topics")
    list_select_related = ("user",)
    ordering = ("-created_ms",)

    @display(description="Account")  # type: ignore[untyped-decorator]
    def account(self, row: Token) -> str:
        return str(row.user.get_username())

    @display(description="Begins with")  # type: ignore[untyped-decorator]
    def begins(self, row: Token) -> str:
        return f"{row.hint}…"

    @display(description="State", label=_STATES)  # type: ignore[untyped-decorator]
    def token_state(self, row: Token) -> str:
        return row.state

    @display(description="Last used")  # type: ignore[untyped-decorator]
    def used(self, row: Token) -> str:
        return moment(row.last_used_ms)

    @display(description="Expires")  # type: ignore[untyped-decorator]
    def expires(self, row: Token) -> str:
        return moment(row.expires_ms) if row.expires_ms else "never"

    @display(description="Change")  # type: ignore[untyped-decorator]
    def change(self, row: Token) -> SafeString | str:
        return links((f"/console/tokens/{row.pk}/revoke/", "Revoke")) if row.state == "valid" else NOTHING


class Since(admin.SimpleListFilter):
    """The last hour, day or week."""

    title = "time"
    parameter_name = "since"
    _MS: ClassVar = {"hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, f"The last {word}") for word in self._MS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in self._MS:
            return queryset
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        return queryset.filter(time_ms__gte=now_ms - self._MS[str(self.value())])


class Audit(ReadOnly):
    """The trail: all of it with `admin` everywhere, else what concerns connectors whose configuration one may read."""

    title = "Audit trail"
    list_display = ("time", "who", "action", "connector", "request", "ended", "message")
    list_display_links = ("time",)
    list_filter = ("outcome", "action", Since)
    search_fields = ("user", "connector", "action", "request", "message", "address")
    fields = (
        *("time", "who", "address", "action", "request", "connector", "outcome", "status"),
        *("message", "changed_keys", "was", "became"),
    )
    readonly_fields = fields

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return principal_of(request).may_somewhere(Verb.VIEW_CONFIG)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        return listing.entries(principal_of(request))

    @display(description="Time (UTC)")  # type: ignore[untyped-decorator]
    def time(self, row: AuditEntry) -> str:
        return moment(row.time_ms)

    @display(description="Who")  # type: ignore[untyped-decorator]
    def who(self, row: AuditEntry) -> str:
        return f"{row.user or 'everybody here'} ({row.via})"

    @display(description="Outcome", label=_OUTCOMES)  # type: ignore[untyped-decorator]
    def ended(self, row: AuditEntry) -> str:
        return str(row.outcome)

    @display(description="Settings that differ")  # type: ignore[untyped-decorator]
    def changed_keys(self, row: AuditEntry) -> str:
        return ", ".join(json.loads(row.changed)) or NOTHING

    @display(description="Before")  # type: ignore[untyped-decorator]
    def was(self, row: AuditEntry) -> SafeString:
        return _json(row.before)

    @display(description="After")  # type: ignore[untyped-decorator]
    def became(self, row: AuditEntry) -> SafeString:
        return _json(row.after)


def _json(text: str) -> SafeString:
    return format_html('<pre class="rf-json">{}</pre>', json.dumps(json.loads(text), indent=2, ensure_ascii=False))
