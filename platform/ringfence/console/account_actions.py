"""Accounts, with their grants, tokens, sessions and links to an identity provider. Each change needs a reason, and uses
the same functions as the command line.

One page shows what an account may do on a connector, by the same rules that decide about its requests.
"""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from ringfence.access import sessions as login_sessions
from ringfence.access.authorise import WHOLE, everywhere, principal_of, requires
from ringfence.access.identify import rights_of
from ringfence.access.models import Grant, LoginSession, OidcIdentity, Token
from ringfence.access.oidc.settings import OidcSettings
from ringfence.access.principal import ROLES, Principal, Verb, topics_of
from ringfence.audit import accounts
from ringfence.audit.accounts import AuditCallback
from ringfence.audit.trail import record_change
from ringfence.audit.trail import record_change as tell_request
from ringfence.connectors.plural_forms import write_count
from ringfence.console.page_parts import (
    AUDIT,
    ActionResult,
    ConfirmPage,
    Impact,
    ReasonForm,
    Table,
    links,
    moment,
    render_live,
    run,
)
from ringfence.fencing.name_patterns import EVERYTHING
from ringfence.fencing.topics.topic_grants import Groups
from ringfence.projection.models import Connector
from ringfence.requests.quota import DEFAULT, QUOTAS, UNLIMITED

_MOST_NAMES = 500


def principal_for(user: User) -> Principal:
    """Return the principal of the account's logins. A disabled account has no permissions."""
    return Principal(user.get_username(), "session", rights_of(user) if user.is_active else ())


@requires(GET=everywhere(Verb.ADMIN))
@require_safe
def rights(request: HttpRequest, name: str) -> HttpResponse:
    """`?connector=`: a name that need not exist yet."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise Http404(f"There is no account {name}")
    connector = request.GET.get("connector", "").strip()[:300]
    who = principal_for(user)
    verbs = who.verbs_on(connector) if connector else frozenset()
    answers = [(verb.value, verb.meaning, verb in verbs, _topics(who.topics(verb, connector))) for verb in Verb]
    names = list(Connector.objects.filter(known=True).order_by("name").values_list("name", flat=True)[:_MOST_NAMES])
    context: dict[str, Any] = {"account": user, "connector": connector, "names": names}
    context["answers"] = answers if connector else []
    return render_live(request, "rights", f"What {name} may do", AUDIT, **context)


def _topics(groups: Groups) -> str:
    """Return the topic patterns that limit a permission; "" for none."""
    return "; and ".join(" or ".join(group) for group in groups)


_ADMINISTERS = requires(GET=everywhere(Verb.ADMIN), POST=everywhere(Verb.ADMIN).writing())
_both = require_http_methods(["GET", "POST"])
_ACCOUNTS, _GRANTS, _TOKENS = "/ui/settings/people", "/ui/settings/roles", "/ui/settings/tokens"
_DAY = 86_400
_CHOICES = [
    *((role, f"{role}: {', '.join(verb.value for verb in Verb if verb in verbs)}") for role, verbs in ROLES.items()),
    *((verb.value, f"{verb.value}: {verb.meaning}") for verb in Verb if verb.value not in ROLES),
]


def tells(request: HttpRequest) -> AuditCallback:
    """Return a callback that fills in the request's audit entry, under the action's own name."""

    def tell(action: str, account: str, *, before: object = None, after: object = None) -> None:
        tell_request(
            request, before={"account": account, "was": before}, after={"account": account, "is": after}, action=action
        )

    return tell


class WhatForm(ReasonForm):
    """Roles and permissions, and the connectors that they cover."""

    what = forms.MultipleChoiceField(
        label="Roles and permissions", initial=["viewer"], choices=_CHOICES, widget=forms.CheckboxSelectMultiple,
        help_text="A role is a set of permissions. Choose one, or single permissions, or both.",
    )  # fmt: skip
    pattern = forms.CharField(
        label="On connectors", initial=EVERYTHING, max_length=300,
        help_text="Names that match: * stands for any characters, ? for one.",
    )  # fmt: skip
    topics = forms.CharField(
        label="Topics", initial=EVERYTHING, max_length=1000,
        help_text="Topics that these connectors may write to: names and patterns, separated by spaces.",
    )  # fmt: skip
    field_order: Sequence[str] = ("what", "pattern", "topics", "reason")

    def clean_what(self) -> str:
        return " ".join(self.cleaned_data["what"])

    def clean_topics(self) -> str:
        try:
            return topics_of(self.cleaned_data["topics"].split())
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


class GrantForm(WhatForm):
    """What an account may do, and how much its connectors may have in all."""

    connectors = forms.IntegerField(
        label="Connectors at most", required=False, min_value=0, max_value=UNLIMITED,
        help_text=f"Of this account. Empty: {DEFAULT.connectors:,}, or no limit for admin on *.",
    )  # fmt: skip
    tasks = forms.IntegerField(
        label="Tasks at most", required=False, min_value=0, max_value=UNLIMITED,
        help_text=f"The sum of their tasks.max. Empty: {DEFAULT.tasks:,}, or no limit.",
    )  # fmt: skip
    config_bytes = forms.IntegerField(
        label="Bytes of configuration at most", required=False, min_value=0, max_value=UNLIMITED,
        help_text=f"Empty: {DEFAULT.config_bytes:,}, or no limit.",
    )  # fmt: skip
    field_order = ("what", "pattern", "topics", *QUOTAS, "reason")


def _quotas(values: dict[str, Any]) -> dict[str, int]:
    return {name: values[name] for name in QUOTAS if values[name] is not None}


class PasswordForm(ReasonForm):
    """A password, entered twice."""

    password = forms.CharField(
        max_length=4096, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    again = forms.CharField(
        max_length=4096,
        strip=False,
        label="Repeat the password",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    field_order = ("password", "again", "reason")

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        if data.get("password") != data.get("again"):
            raise forms.ValidationError("The two passwords differ: nothing was changed.")
        return data


class AccountForm(GrantForm):
    """A new account. Without a password it cannot log in, and only its tokens work."""

    name = forms.CharField(max_length=150, label="Name", widget=forms.TextInput(attrs={"autocomplete": "off"}))
    password = forms.CharField(
        max_length=4096, strip=False, required=False, help_text="Leave it empty for an account with tokens only.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )  # fmt: skip
    field_order = ("name", "password", "what", "pattern", "topics", *QUOTAS, "reason")


class TokenForm(WhatForm):
    """A new token of an account. It can never do more than the account."""

    label = forms.CharField(max_length=100, label="Name", help_text="What it is used for.")
    days = forms.IntegerField(min_value=1, max_value=3650, initial=90, label="Days until it expires")
    field_order = ("label", "what", "pattern", "topics", "days", "reason")


def find_account(name: str) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        raise Http404(f"There is no account {name}")
    return user


def _may(user: User) -> str:
    rows = Grant.objects.filter(user=user).order_by("id")
    return ", ".join(map(str, rows)) or "nothing"


def _other_admins(user: User) -> int:
    """Return the number of other active accounts that may administer everything."""
    grants = Grant.objects.filter(pattern=EVERYTHING, user__is_active=True).exclude(user=user)
    return len({grant.user_id for grant in grants if Verb.ADMIN in grant.right.verbs})


def _admins_left(user: User) -> Impact:
    return Impact(
        str(_other_admins(user)),
        "other active accounts may administer everything",
        "besides RINGFENCE_TOKEN, if it is set",
    )


@sensitive_post_parameters("password")
def _create(request: HttpRequest) -> HttpResponse:
    says = ["A password has at least 8 characters, and is none of the common ones."]
    sheet = ConfirmPage("New account", "Create", _ACCOUNTS, says, form=AccountForm)

    def act(values: dict[str, Any]) -> ActionResult:
        name = values["name"].strip()
        what, topics = values["what"].split(), values["topics"].split()
        more: dict[str, Any] = {"quotas": _quotas(values), "tell": tells(request)}
        accounts.create(name, values["password"] or None, what, values["pattern"], topics, **more)
        return ActionResult(f"The account {name} is created.")

    return run(request, sheet, act)


create = _ADMINISTERS(_both(_create))


@sensitive_post_parameters("password", "again")
def _password(request: HttpRequest, name: str) -> HttpResponse:
    user = find_account(name)
    says = ["Its open sessions end. Its tokens stay valid: revoke them separately."]
    sheet = ConfirmPage(f"Set the password of {name}", "Set the password", _ACCOUNTS, says, form=PasswordForm)

    def act(values: dict[str, Any]) -> ActionResult:
        accounts.set_password(user.username, values["password"], tell=tells(request))
        return ActionResult(f"The password of {name} is set.")

    return run(request, sheet, act)


password = _ADMINISTERS(_both(_password))


@_ADMINISTERS
@_both
def grant(request: HttpRequest, name: str) -> HttpResponse:
    """Grant an account more permissions."""
    user = find_account(name)
    effects = [Impact(_may(user), "current permissions")]
    says = ["It takes effect with the next request of its sessions, and of its tokens within their own scope."]
    sheet = ConfirmPage(f"Grant {name} more", "Grant", _GRANTS, says, effects, form=GrantForm)

    def act(values: dict[str, Any]) -> ActionResult:
        what, topics = values["what"].split(), values["topics"].split()
        more: dict[str, Any] = {"quotas": _quotas(values), "tell": tells(request)}
        accounts.grant(user.username, what, values["pattern"], topics, **more)
        return ActionResult(f"{name} may now: {_may(user)}.")

    return run(request, sheet, act)


@_ADMINISTERS
@_both
def revoke_grant(request: HttpRequest, number: int) -> HttpResponse:
    """Revoke a grant: everything that the account may do on this pattern."""
    row = Grant.objects.select_related("user").filter(pk=number, by_groups=False).first()
    if row is None:
        raise Http404("This grant no longer exists, or comes from groups of the identity provider")
    user, pattern = row.user, row.pattern
    effects = [Impact(_may(user), "current permissions"), _admins_left(user)]
    says = [f"Everything that {user.username} may do on {pattern} is revoked, from the next request on."]
    sheet = ConfirmPage(f"Revoke permissions of {user.username}", "Revoke", _GRANTS, says, effects)

    def act(values: dict[str, Any]) -> ActionResult:
        accounts.ungrant(user.username, pattern, tell=tells(request))
        return ActionResult(f"{user.username} may now: {_may(user)}.")

    return run(request, sheet, act)


@_ADMINISTERS
@_both
def disable(request: HttpRequest, name: str) -> HttpResponse:
    """Disable an account: its sessions and tokens become invalid."""
    user = find_account(name)
    valid = sum(row.state == "valid" for row in Token.objects.filter(user=user))
    effects = [Impact(str(valid), "valid tokens that stop working"), _admins_left(user)]
    says = ["Its sessions and tokens become invalid with the next request. Nothing is deleted."]
    sheet = ConfirmPage(f"Disable {name}", "Disable", _ACCOUNTS, says, effects)
    return run(request, sheet, lambda _: _set_active(request, user, False))


@_ADMINISTERS
@_both
def enable(request: HttpRequest, name: str) -> HttpResponse:
    """Enable an account again."""
    user = find_account(name)
    says = ["Its password works again, and so do its tokens that have neither expired nor been revoked."]
    sheet = ConfirmPage(f"Enable {name}", "Enable", _ACCOUNTS, says, [Impact(_may(user), "permissions")])
    return run(request, sheet, lambda _: _set_active(request, user, True))


def _set_active(request: HttpRequest, user: User, active: bool) -> ActionResult:
    accounts.set_active(user.username, active, tell=tells(request))
    return ActionResult(f"{user.username} is {'enabled' if active else 'disabled'}.")


@_ADMINISTERS
@_both
def token(request: HttpRequest, name: str) -> HttpResponse:
    """Create a token. Its text is shown once."""
    user = find_account(name)
    effects = [Impact(_may(user), "permissions of the account: the token can never do more")]
    says = ["Its text is shown once, on the next page. The database keeps its SHA-256 only."]
    sheet = ConfirmPage(f"New token of {name}", "Create the token", _TOKENS, says, effects, form=TokenForm)

    def act(values: dict[str, Any]) -> ActionResult:
        what, seconds = values["what"].split(), float(values["days"] * _DAY)
        scope = (what, values["pattern"], seconds, values["topics"].split())
        text = accounts.create_token(user.username, values["label"], *scope, tell=tells(request))
        return ActionResult(
            f"The token {values['label']} of {name} is created. Copy it now: it is not shown again.", secret=text
        )

    return run(request, sheet, act)


@_ADMINISTERS
@_both
def revoke(request: HttpRequest, number: int) -> HttpResponse:
    """Revoke a token."""
    row = Token.objects.select_related("user").filter(pk=number).first()
    if row is None:
        raise Http404(f"There is no token {number}")
    says = [f"{row.name} of {row.user.get_username()}, which begins with {row.hint}, becomes invalid immediately."]
    sheet = ConfirmPage(f"Revoke the token {row.name}", "Revoke", _TOKENS, says)

    def act(values: dict[str, Any]) -> ActionResult:
        accounts.revoke_token(number, tell=tells(request))
        return ActionResult(f"The token {row.name} is revoked.")

    return run(request, sheet, act)


_ACCOUNTS = "/ui/settings/people"


class LinkForm(ReasonForm):
    """The subject at the provider."""

    subject = forms.CharField(
        max_length=255, label="Subject",
        help_text="The provider's `sub`. The audit entry of a refused login contains it.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip
    field_order = ("subject", "reason")


def _settings() -> OidcSettings:
    oidc: OidcSettings | None = settings.OIDC
    if oidc is None:
        raise Http404("Single sign-on is not set up here. Set RINGFENCE_OIDC_ISSUER, see docs/access.md")
    return oidc


@_ADMINISTERS
@_both
def link(request: HttpRequest, name: str) -> HttpResponse:
    """Let a subject of the provider log in as an existing account."""
    user, issuer = find_account(name), _settings().issuer
    says = [
        f"This subject of {issuer} logs in as {name}, with the permissions of {name}. Its groups add to "
        "that at each login."
    ]
    effects = [Impact(", ".join(map(str, user.grants.all())) or "nothing", "current permissions")]
    sheet = ConfirmPage(f"Link {name} to the identity provider", "Link", _ACCOUNTS, says, effects, form=LinkForm)

    def act(values: dict[str, Any]) -> ActionResult:
        accounts.link(name, issuer, values["subject"], tell=tells(request))
        return ActionResult(f"{name} is now the subject {values['subject'].strip()} of {issuer}.")

    return run(request, sheet, act)


@_ADMINISTERS
@_both
def unlink(request: HttpRequest, name: str) -> HttpResponse:
    """Remove an account's link, so that no subject of the provider can log in as it."""
    user, issuer = find_account(name), _settings().issuer
    row = OidcIdentity.objects.filter(issuer=issuer, user=user).first()
    if row is None:
        raise Http404(f"{name} is linked to no subject of {issuer}")
    grants = [str(each) for each in user.grants.filter(by_groups=True)]
    effects = [
        Impact(row.subject, f"of {issuer} does not log in as {name} any more"),
        Impact(", ".join(grants) or "nothing", "from its groups, revoked"),
    ]
    says = ["Its sessions from single sign-on end. A password, and grants by administrators, stay."]
    sheet = ConfirmPage(f"Unlink {name} from the identity provider", "Unlink", _ACCOUNTS, says, effects)

    def act(_values: dict[str, Any]) -> ActionResult:
        accounts.unlink(name, issuer, tell=tells(request))
        return ActionResult(f"{name} is not linked to a subject of {issuer}.")

    return run(request, sheet, act)


_LIST = "/ui/settings/sessions"
_MOST_ROWS = 500


@requires(GET=WHOLE)
@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    """List the sessions, last used first."""
    who = principal_of(request)
    rows = login_sessions.visible_to(who, who.may_everywhere(Verb.ADMIN))[:_MOST_ROWS]
    headers = ("Account", "By", "Address", "Browser", "Since", "Last used", "Act")
    table = Table(headers, [_row(request, row) for row in rows], [row.pk for row in rows])
    more: dict[str, Any] = {"says": _says(), "empty": "There are no sessions."}
    if any(row.account == who.name and not login_sessions.is_current(row, request) for row in rows):
        more["new"] = (f"{_LIST}others/end/", "End my other sessions")
    return render_live(request, "table", "Sessions", AUDIT, table=table, **more)


def _says() -> str:
    idle = settings.SESSION_IDLE_MINUTES
    idle_clause = f" or has not been used for {_span(idle)}" if idle else ""
    return f"A session ends automatically when it is {_span(settings.SESSION_HOURS * 60)} old{idle_clause}."


def _span(minutes: int) -> str:
    size, word = next(unit for unit in ((1440, "day"), (60, "hour"), (1, "minute")) if minutes % unit[0] == 0)
    count = minutes // size
    return f"{write_count(count, word)}"


def _row(request: HttpRequest, row: LoginSession) -> list[Any]:
    by = "this session" if login_sessions.is_current(row, request) else row.via
    act = links((f"{_LIST}{row.pk}/end/", "End"), asking=("End",))
    return [row.account, by, row.address, row.agent, moment(row.created_ms), moment(row.seen_ms), act]


@requires(GET=WHOLE, POST=WHOLE.writing())
@require_http_methods(["GET", "POST"])
def end(request: HttpRequest, number: int) -> HttpResponse:
    """End a session: one's own, or any with `admin` everywhere."""
    who = principal_of(request)
    row = login_sessions.visible_to(who, who.may_everywhere(Verb.ADMIN)).filter(pk=number).first()
    if row is None:
        raise Http404("This session has ended already")
    says = [f"The session of {row.account} from {row.address}, last used {moment(row.seen_ms)}, becomes invalid."]
    if login_sessions.is_current(row, request):
        says.append("It is the one that you use now: you have to log in again.")

    def act(_values: dict[str, Any]) -> ActionResult:
        record_change(
            request, before={"account": row.account, "address": row.address}, after=None, action="end session"
        )
        login_sessions.end(row)
        return ActionResult("The session is ended.")

    return run(request, ConfirmPage("End a session", "End it", _LIST, says), act)


@requires(GET=WHOLE, POST=WHOLE.writing())
@require_http_methods(["GET", "POST"])
def end_others(request: HttpRequest) -> HttpResponse:
    """End all other sessions of the user."""
    who = principal_of(request)
    says = ["Every other session of yours becomes invalid: other browsers and machines have to log in again."]

    def act(_values: dict[str, Any]) -> ActionResult:
        count = login_sessions.end_others(who, request)
        record_change(request, before={"account": who.name, "sessions": count}, after=None, action="end sessions")
        return ActionResult(f"{write_count(count, 'other session')} of yours ended.")

    return run(request, ConfirmPage("End your other sessions", "End them", _LIST, says), act)


urls = [
    path("settings/people/<name:name>/rights", rights),
    path("settings/people/new", create),
    path("settings/people/<name:name>/password", password),
    path("settings/people/<name:name>/grant", grant),
    path("settings/people/<name:name>/disable", disable),
    path("settings/people/<name:name>/enable", enable),
    path("settings/people/<name:name>/token", token),
    path("settings/roles/<int:number>/take", revoke_grant),
    path("settings/tokens/<int:number>/revoke", revoke),
    path("settings/people/<name:name>/link", link),
    path("settings/people/<name:name>/unlink", unlink),
    path("settings/sessions", sessions),
    path("settings/sessions/others/end", end_others),
    path("settings/sessions/<int:number>/end", end),
]
