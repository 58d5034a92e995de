"""The access tables: grants, identities, tokens, sessions, and counts of failed tries."""

import time
from dataclasses import replace
from typing import ClassVar

from django.conf import settings
from django.db import models

from ringfence.access.principal import Right, Verb, verbs_of
from ringfence.fencing.name_patterns import EVERYTHING
from ringfence.requests.quota import DEFAULT, NO_LIMITS, QUOTAS, Quota


def describe(what: str, pattern: str, topics: str) -> str:
    """A grant's or token's scope for people."""
    limit = "" if topics == EVERYTHING else f", topics {topics}"
    return f"{what} on {pattern}{limit}"


class Grant(models.Model):
    """A user may do `what` (roles and verbs, separated by spaces) to the connectors that match `pattern`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="grants")
    what = models.TextField()
    pattern = models.TextField(default=EVERYTHING)
    topics = models.TextField(default=EVERYTHING)
    """Patterns of the topics that those connectors may write to, separated by spaces."""
    connectors = models.BigIntegerField(null=True)
    tasks = models.BigIntegerField(null=True)
    config_bytes = models.BigIntegerField(null=True)
    """Quotas (`ringfence.requests.quota`), null for the default: none for administrators of everything."""
    by_groups = models.BooleanField(default=False)
    """Whether it comes from the identity provider's groups: each login writes those again. Administrators make the
    others.
    """

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "what", "pattern", "by_groups"], name="one_grant_each")
        ]

    @property
    def right(self) -> Right:
        return Right(verbs_of(self.what.split()), self.pattern, tuple(self.topics.split()), self.quota)

    @property
    def quota(self) -> Quota:
        administers = self.pattern == EVERYTHING and Verb.ADMIN in verbs_of(self.what.split())
        return replace(NO_LIMITS if administers else DEFAULT, **self.set_quotas)

    @property
    def set_quotas(self) -> dict[str, int]:
        """The quotas that differ from the default."""
        return {name: value for name in QUOTAS if (value := getattr(self, name)) is not None}

    def __str__(self) -> str:
        quotas = "".join(f", {value:,} {QUOTAS[name]}" for name, value in self.set_quotas.items())
        by = " (by groups)" if self.by_groups else ""
        return f"{describe(self.what, self.pattern, self.topics)}{quotas}{by}"


class OidcIdentity(models.Model):
    """An account's identity at an identity provider. Issuer and subject are never reassigned there, unlike names."""

    issuer = models.TextField()
    subject = models.TextField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="one_identity"),
            models.UniqueConstraint(fields=["issuer", "user"], name="one_identity_each"),
        ]


class Token(models.Model):
    """A token of a user. It can never do more than the user, nor more than its own scope.

    `digest`: SHA-256 of the token, which is long and random, so that a slow hash would add nothing. `hint`: its first
    characters, for people to tell tokens apart. Times are milliseconds; `expires_ms` 0: never.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.TextField()
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=16)
    what = models.TextField(default="admin")
    pattern = models.TextField(default=EVERYTHING)
    topics = models.TextField(default=EVERYTHING)
    created_ms = models.BigIntegerField()
    expires_ms = models.BigIntegerField(default=0)
    revoked_ms = models.BigIntegerField(default=0)
    last_used_ms = models.BigIntegerField(default=0)

    @property
    def scope(self) -> Right:
        return Right(verbs_of(self.what.split()), self.pattern, tuple(self.topics.split()))

    def __str__(self) -> str:
        return describe(self.what, self.pattern, self.topics)

    @property
    def state(self) -> str:
        """valid, expired or revoked."""
        if self.revoked_ms:
            return "revoked"
        return "expired" if 0 < self.expires_ms <= time.time() * 1000 else "valid"


class LoginSession(models.Model):
    """A session as users see it (`ringfence.access.sessions`). `key_hash`: that of Django's row; `via`: how it began.
    Times are milliseconds; `seen_ms`: its last use, to a minute.
    """

    key_hash = models.CharField(max_length=40, unique=True)
    account = models.TextField(db_index=True)
    via = models.TextField()
    address = models.TextField()
    agent = models.TextField()
    created_ms = models.BigIntegerField()
    seen_ms = models.BigIntegerField()


class ProviderSession(models.Model):
    """A session that single sign-on began, with the provider's names of it (`ringfence.access.sessions`).
    `key_hash`: that of Django's row; `sid`: "" where the provider names none."""

    key_hash = models.CharField(max_length=40, unique=True)
    issuer = models.TextField()
    subject = models.TextField(db_index=True)
    sid = models.TextField(db_index=True, default="")


class UsedLogoutToken(models.Model):
    """A logout token that has ended sessions, and is not accepted again."""

    digest = models.CharField(max_length=64, primary_key=True)
    time_ms = models.BigIntegerField()


class UsedState(models.Model):
    """The `state` of a login at the identity provider that was answered. Each answer counts once."""

    digest = models.CharField(max_length=64, primary_key=True)
    time_ms = models.BigIntegerField()


class Throttle(models.Model):
    """Failed login tries, of an address or for an account, since `since_ms`."""

    key = models.CharField(max_length=80, primary_key=True)
    failures = models.IntegerField(default=0)
    since_ms = models.BigIntegerField()
