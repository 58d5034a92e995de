"""Accounts, grants and tokens, as changed by the command line and the console. Each change is written to
the audit trail.
"""

import getpass
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from ringfence.access import tokens
from ringfence.access.models import Grant, OidcIdentity, Token
from ringfence.access.oidc.claims import Claims, GroupGrant, GroupGrants, LoginDenied, grants_for, groups_of, name_of
from ringfence.access.oidc.settings import OidcSettings
from ringfence.access.principal import Verb, topics_of, verbs_of
from ringfence.audit.models import Outcome
from ringfence.audit.trail import record
from ringfence.fencing.name_patterns import EVERYTHING
from ringfence.requests.quota import QUOTAS, UNLIMITED

Quotas = Mapping[str, int]
NO_QUOTAS: Final[Quotas] = MappingProxyType({})


class AuditCallback(Protocol):
    """Writes a change to the audit trail, in an entry of its own, or in that of the request."""

    def __call__(self, action: str, account: str, *, before: object = None, after: object = None) -> None: ...


def by_command_line(action: str, account: str, *, before: object = None, after: object = None) -> None:
    """Write an entry for the operating system's user who runs the command."""
    try:
        by = getpass.getuser()
    except (KeyError, OSError):
        by = ""
    more: dict[str, Any] = {"before": before, "after": after, "request": f"account {account}"}
    record(action, user=by, via="command line", address="", outcome=Outcome.DONE, **more)


def create(
    name: str,
    password: str | None,
    what: Iterable[str],
    pattern: str = EVERYTHING,
    topics: Iterable[str] = (EVERYTHING,),
    *,
    quotas: Quotas = NO_QUOTAS,
    tell: AuditCallback = by_command_line,
) -> User:
    """Create an account. password: None for an account without a login. quotas: as in `grant`.

    Raises ValueError or ValidationError with the reason.
    """
    with transaction.atomic():
        if not name.strip() or User.objects.filter(username__iexact=name).exists():
            raise ValueError(f"There is an account {name!r} already, or that is not a valid name: choose another")
        user = User(username=name)
        _put_password(user, password)
        user.full_clean(exclude=["password"])
        user.save()
        if what:
            _add_grant(user, what, pattern, topics, quotas)
        tell("create account", name, after=grants_of(user))
    return user


def set_password(name: str, password: str, *, tell: AuditCallback = by_command_line) -> None:
    user = find(name)
    _put_password(user, password)
    with transaction.atomic():
        user.save()
        tell("set password", name)


def grant(
    name: str,
    what: Iterable[str],
    pattern: str = EVERYTHING,
    topics: Iterable[str] = (EVERYTHING,),
    *,
    quotas: Quotas = NO_QUOTAS,
    tell: AuditCallback = by_command_line,
) -> Grant:
    """Grant roles and permissions, and return the grant. If the same ones are already granted on that pattern, their
    topics and quotas are replaced. quotas: those that differ from the default, by the names of
    `ringfence.requests.quota`.
    """
    user = find(name)
    with transaction.atomic():
        before = grants_of(user)
        row = _add_grant(user, what, pattern, topics, quotas)
        tell("grant", name, before=before, after=grants_of(user))
    return row


def ungrant(name: str, pattern: str, *, tell: AuditCallback = by_command_line) -> None:
    user = find(name)
    with transaction.atomic():
        before = grants_of(user)
        if not Grant.objects.filter(user=user, pattern=pattern, by_groups=False).delete()[0]:
            if before:
                raise ValueError(
                    f"{name} has no grant on {pattern} from an administrator: grants by groups are changed in "
                    "RINGFENCE_OIDC_GROUPS_FILE or at the identity provider. See `ringfence users list`"
                )
            raise ValueError(f"{name} has no grant on {pattern}: see `ringfence users list`")
        tell("ungrant", name, before=before, after=grants_of(user))


def revoke_grant(row: Grant, *, tell: AuditCallback = by_command_line) -> None:
    """Revoke one grant. Raises ValueError for one by groups, and for the last that lets an account administer."""
    user = row.user
    if row.by_groups:
        raise ValueError(
            "Grants by groups are changed in RINGFENCE_OIDC_GROUPS_FILE, or at the identity provider. Nothing was "
            "changed"
        )
    with transaction.atomic():
        # Two at once would each leave the other's.
        list(Grant.objects.select_for_update().filter(pattern=EVERYTHING))
        before = grants_of(user)
        row.delete()
        if _administers(row) and not any(
            map(_administers, Grant.objects.filter(user__is_active=True, pattern=EVERYTHING))
        ):
            raise ValueError(
                f"After that, no account could administer: grant admin on {EVERYTHING} to another one first. Nothing "
                "was changed"
            )
        tell("ungrant", user.get_username(), before=before, after=grants_of(user))


def _administers(row: Grant) -> bool:
    return row.pattern == EVERYTHING and Verb.ADMIN in verbs_of(row.what.split())


def set_active(name: str, active: bool, *, tell: AuditCallback = by_command_line) -> None:
    """Enable or disable an account. A disabled account's sessions and tokens are invalid from the next request on."""
    user = find(name)
    with transaction.atomic():
        user.is_active = active
        user.save()
        tell("enable account" if active else "disable account", name)


def create_token(
    name: str,
    token: str,
    what: Iterable[str],
    pattern: str,
    seconds: float,
    topics: Iterable[str] = (EVERYTHING,),
    *,
    tell: AuditCallback = by_command_line,
) -> str:
    """Create a token, and return its text, which is shown only now."""
    with transaction.atomic():
        row, text = tokens.create(find(name), token, what, pattern, seconds, topics)
        entry = {"token": row.pk, "name": token, "what": row.what, "pattern": pattern, "topics": row.topics}
        tell("create token", name, after=entry)
    return text


def revoke_token(number: int, *, tell: AuditCallback = by_command_line) -> None:
    row = Token.objects.select_related("user").filter(pk=number).first()
    if row is None:
        raise ValueError(f"There is no token {number}: see `ringfence tokens list`")
    with transaction.atomic():
        tokens.revoke(row)
        tell("revoke token", row.user.get_username(), before={"token": number, "name": row.name})


def find(name: str) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        raise ValueError(f"There is no account {name!r}: see `ringfence users list`")
    return user


def _put_password(user: User, password: str | None) -> None:
    if password is None:
        user.set_unusable_password()
        return
    validate_password(password, user)
    user.set_password(password)


def _add_grant(user: User, what: Iterable[str], pattern: str, topics: Iterable[str], quotas: Quotas) -> Grant:
    verbs = list(dict.fromkeys(what))
    if not verbs_of(verbs):
        raise ValueError("Name at least one role or permission")
    if wrong := [f"{name}={value}" for name, value in quotas.items() if not 0 <= value <= UNLIMITED]:
        raise ValueError(f"{wrong[0]} is no quota: use a number from 0 on")
    limit = {"topics": topics_of(topics), **{name: quotas.get(name) for name in QUOTAS}}
    what_text = " ".join(verbs)
    row, _ = Grant.objects.update_or_create(user=user, what=what_text, pattern=pattern, by_groups=False, defaults=limit)
    return row


def grants_of(user: User) -> list[dict[str, object]]:
    rows = Grant.objects.filter(user=user).order_by("id")
    return [
        {"what": row.what, "pattern": row.pattern, "topics": row.topics, **row.set_quotas}
        | ({"by": "groups"} if row.by_groups else {})
        for row in rows
    ]


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
        before = grants_of(user)
        rows.delete()
        Grant.objects.bulk_create(
            Grant(user=user, what=each.what, pattern=each.pattern, topics=each.topics, by_groups=True)
            for each in sorted(grants)
        )
        tell("grant by groups", user.username, before=before, after=grants_of(user))


def link(name: str, issuer: str, subject: str, *, tell: AuditCallback = by_command_line) -> None:
    """Let this subject of the provider log in as an existing account. Raises ValueError."""
    user, subject = find(name), subject.strip()
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
    user = find(name)
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
            user = create(name, None, (), tell=tell)
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
