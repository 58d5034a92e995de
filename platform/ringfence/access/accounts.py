"""Accounts, their grants and tokens, as the command line changes them; each change is in the audit trail."""

import getpass
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.db import transaction

from ringfence.access import tokens
from ringfence.access.models import Grant, Token
from ringfence.access.patterns import EVERYTHING
from ringfence.access.verbs import verbs_of
from ringfence.audit.models import Outcome
from ringfence.audit.trail import record


def create(name: str, password: str | None, what: Iterable[str], pattern: str = EVERYTHING) -> User:
    """None for a password: nobody can log in as this account. ValueError or ValidationError say what is wrong."""
    with transaction.atomic():
        if not name.strip() or User.objects.filter(username__iexact=name).exists():
            raise ValueError(f"There is an account {name!r} already, or that is no name: choose another")
        user = User(username=name)
        _put_password(user, password)
        user.full_clean(exclude=["password"])
        user.save()
        if what:
            _add_grant(user, what, pattern)
        _told("create account", name, after=_grants(user))
    return user


def set_password(name: str, password: str) -> None:
    user = find(name)
    _put_password(user, password)
    with transaction.atomic():
        user.save()
        _told("set password", name)


def grant(name: str, what: Iterable[str], pattern: str = EVERYTHING) -> None:
    user = find(name)
    with transaction.atomic():
        before = _grants(user)
        _add_grant(user, what, pattern)
        _told("grant", name, before=before, after=_grants(user))


def ungrant(name: str, pattern: str) -> None:
    user = find(name)
    with transaction.atomic():
        before = _grants(user)
        if not Grant.objects.filter(user=user, pattern=pattern).delete()[0]:
            raise ValueError(f"{name} has no grant on {pattern}: see `ringfence users list`")
        _told("ungrant", name, before=before, after=_grants(user))


def set_active(name: str, active: bool) -> None:
    """A disabled account's sessions and tokens are worth nothing from the next request on."""
    user = find(name)
    with transaction.atomic():
        user.is_active = active
        user.save()
        _told("enable account" if active else "disable account", name)


def create_token(name: str, token: str, what: Iterable[str], pattern: str, seconds: float) -> str:
    """The token's text, which is shown this once."""
    with transaction.atomic():
        row, text = tokens.create(find(name), token, what, pattern, seconds)
        _told("create token", name, after={"token": row.pk, "name": token, "what": row.what, "pattern": pattern})
    return text


def revoke_token(number: int) -> None:
    row = Token.objects.select_related("user").filter(pk=number).first()
    if row is None:
        raise ValueError(f"There is no token {number}: see `ringfence tokens list`")
    with transaction.atomic():
        tokens.revoke(row)
        _told("revoke token", row.user.get_username(), before={"token": number, "name": row.name})


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


def _add_grant(user: User, what: Iterable[str], pattern: str) -> None:
    wanted = list(what)
    if not verbs_of(wanted):
        raise ValueError("Name at least one role or verb")
    Grant.objects.get_or_create(user=user, what=" ".join(wanted), pattern=pattern)


def _grants(user: User) -> list[dict[str, str]]:
    return [{"what": row.what, "pattern": row.pattern} for row in Grant.objects.filter(user=user).order_by("id")]


def _told(action: str, account: str, **more: Any) -> None:
    """By whom: the machine's account that runs the command."""
    try:
        by = getpass.getuser()
    except (KeyError, OSError):
        by = ""
    record(action, user=by, via="command line", address="", outcome=Outcome.DONE, request=f"account {account}", **more)
