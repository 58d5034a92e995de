"""Links accounts to subjects of the identity provider, and unlinks them, by an administrator."""

from typing import Any

from django import forms
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods

from ringfence.access.authorise import everywhere, requires
from ringfence.access.models import OidcIdentity
from ringfence.access.oidc.settings import OidcSettings
from ringfence.access.principal import Verb
from ringfence.audit import accounts
from ringfence.console.account_actions import find_account, tells
from ringfence.console.page_parts import ActionResult, ConfirmPage, Impact, ReasonForm, run

_ACCOUNTS = "/ui/settings/people"
_ADMINISTERS = requires(GET=everywhere(Verb.ADMIN), POST=everywhere(Verb.ADMIN).writing())
_both = require_http_methods(["GET", "POST"])


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


urls = [path("settings/people/<name:name>/link", link), path("settings/people/<name:name>/unlink", unlink)]
