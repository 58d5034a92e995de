"""The account of a single sign-on login, and its permissions from now on. Each change is written to the audit trail."""

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from ringfence.access.models import Grant, OidcIdentity
from ringfence.access.oidc.claims import Claims, GroupGrant, GroupGrants, LoginDenied, grants_for, groups_of, name_of
from ringfence.access.oidc.settings import OidcSettings
from ringfence.audit import accounts
from ringfence.audit.accounts import AuditCallback, by_command_line
from ringfence.audit.outcome import Outcome
from ringfence.audit.trail import record

VIA = "single sign-on"


def account_for(claims: Claims, settings: OidcSettings, mapping: GroupGrants, address: str) -> User:
    """Return the account of the authenticated subject, with the permissions that its current groups give. Those of
    former groups are removed first, even if the login is then refused. A first login creates the account. Raises
    `LoginDenied`.
    """
    issuer, subject = settings.issuer, str(claims["sub"])
    tell = _tells(address)
    groups = groups_of(claims, settings.groups_claim)
    grants = grants_for(groups, mapping)
    user = _find(issuer, subject)
    if user is not None:
        put_group_grants(user, grants, tell)
    if user is None and grants:
        user = _create(claims, settings, grants, tell)
    if user is None or not Grant.objects.filter(user=user).exists():
        raise LoginDenied(_without_groups(settings, groups, mapping))
    if not user.is_active:
        raise LoginDenied(f"The account {user.username} is disabled here. Ask an administrator to enable it")
    return user


def put_group_grants(user: User, grants: Iterable[GroupGrant], tell: AuditCallback) -> None:
    """Replace the permissions that an account has by its groups. Grants by administrators stay."""
    grants = set(grants)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # one login at a time
        rows = Grant.objects.filter(user=user, by_groups=True)
        if {GroupGrant(row.what, row.pattern, row.topics) for row in rows} == grants:
            return
        before = accounts.grants_of(user)
        rows.delete()
        Grant.objects.bulk_create(
            Grant(user=user, what=each.what, pattern=each.pattern, topics=each.topics, by_groups=True)
            for each in sorted(grants)
        )
        tell("grant by groups", user.username, before=before, after=accounts.grants_of(user))


def link(name: str, issuer: str, subject: str, *, tell: AuditCallback = by_command_line) -> None:
    """Let this subject of the provider log in as an existing account. Raises ValueError."""
    user, subject = accounts.find(name), subject.strip()
    if not subject:
        raise ValueError("Name the subject: the provider's `sub`, which a refused login has in the audit trail")
    other = _find(issuer, subject)
    if other is not None:
        raise ValueError(f"The subject {subject} is already linked to account {other.username}: unlink that first")
    if OidcIdentity.objects.filter(issuer=issuer, user=user).exists():
        raise ValueError(f"{name} is linked to another subject of {issuer}: unlink it first")
    with transaction.atomic():
        OidcIdentity.objects.create(issuer=issuer, subject=subject, user=user)
        tell("link account", name, after={"issuer": issuer, "subject": subject})


def unlink(name: str, issuer: str, *, tell: AuditCallback = by_command_line) -> None:
    """Remove an account's link: its sessions from that provider end, and permissions by groups are removed. Raises
    ValueError.
    """
    user = accounts.find(name)
    row = OidcIdentity.objects.filter(issuer=issuer, user=user).first()
    if row is None:
        raise ValueError(f"{name} is linked to no subject of {issuer}")
    with transaction.atomic():
        put_group_grants(user, (), tell)
        row.delete()
        tell("unlink account", name, before={"issuer": issuer, "subject": row.subject})


def _find(issuer: str, subject: str) -> User | None:
    row = OidcIdentity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
    return row.user if row is not None else None


def _create(claims: Claims, settings: OidcSettings, grants: Iterable[GroupGrant], tell: AuditCallback) -> User:
    name, subject = name_of(claims, settings.name_claim), str(claims["sub"])
    if User.objects.filter(username__iexact=name).exists():
        raise LoginDenied(
            f"There is an account {name} here already, and it is not linked to you. If it is yours, an administrator "
            f"can link it: ringfence users link {name} --subject {subject}"
        )
    try:
        with transaction.atomic():
            user = accounts.create(name, None, (), tell=tell)
            OidcIdentity.objects.create(issuer=settings.issuer, subject=subject, user=user)
            put_group_grants(user, grants, tell)
    except ValidationError:
        raise LoginDenied(
            f"The provider calls you {name[:150]!r}, and accounts are named with letters, digits and @ . + - _ only. "
            "An administrator can name another claim in RINGFENCE_OIDC_NAME_CLAIM"
        ) from None
    except (IntegrityError, ValueError):  # created concurrently, by another login
        signed_on = _find(settings.issuer, subject)
        if signed_on is None:
            raise LoginDenied(f"An account {name} was created just now. Log in again") from None
        return signed_on
    return user


def _without_groups(settings: OidcSettings, groups: tuple[str, ...], mapping: GroupGrants) -> str:
    if not mapping:
        return (
            "You have no account here. An administrator can create one, grant it permissions and link it to you, or "
            "let groups give permissions with RINGFENCE_OIDC_GROUPS_FILE"
        )
    if not groups:
        return (
            f"The provider sent no groups in the claim {settings.groups_claim!r}, and groups give permissions here. "
            "An administrator can have them sent (a scope in RINGFENCE_OIDC_SCOPES, or a setting of the provider), or "
            "name another claim in RINGFENCE_OIDC_GROUPS_CLAIM"
        )
    groups_text = ", ".join(group[:100] for group in groups[:10]) + (" …" if len(groups) > 10 else "")
    return (
        f"None of your groups gives permissions here ({groups_text}). Ask to be added to one that does, or ask an "
        "administrator to add yours to RINGFENCE_OIDC_GROUPS_FILE"
    )


def _tells(address: str) -> AuditCallback:
    def tell(action: str, account: str, *, before: object = None, after: object = None) -> None:
        more: dict[str, Any] = {"before": before, "after": after, "request": f"account {account}"}
        record(action, user=account, via=VIA, address=address, outcome=Outcome.DONE, **more)

    return tell
