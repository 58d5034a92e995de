"""Accounts, grants and tokens, as changed by the command line and the console. Each change is written to
the audit trail.
"""

import getpass
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.db import transaction

from ringfence.access import tokens
from ringfence.access.models import Grant, Token
from ringfence.access.topic_patterns import topics_of
from ringfence.access.verbs import Verb, verbs_of
from ringfence.audit.outcome import Outcome
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
