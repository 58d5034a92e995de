"""Audit entries: added, completed once, and never changed or deleted through Django again."""

from enum import StrEnum
from typing import Any, ClassVar

from django.db import models


class Outcome(StrEnum):
    """How a write ended. UNKNOWN: it was asked for, and its outcome is unknown (or not yet)."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @staticmethod
    def of(status: int) -> "Outcome":
        """By the HTTP status: 500 and 504 are what a command answers whose outcome is in doubt; 503 changed nothing."""
        if status < 400:
            return Outcome.DONE
        if status in (401, 403, 429):
            return Outcome.REFUSED
        return Outcome.UNKNOWN if status in (500, 502, 504) else Outcome.FAILED


class AppendOnly(Exception):
    """Somebody tried to change or delete an audit entry."""

    def __init__(self) -> None:
        super().__init__("Audit entries are never changed or deleted: add another one that puts it right.")


class EntryQuerySet(models.QuerySet["AuditEntry"]):
    """Reading, adding, and completing what is not complete."""

    def complete(self, number: int, **values: Any) -> bool:
        """Fill in what came of a write, once: False where that was done already."""
        open_ones = self.filter(pk=number, completed=False)
        return models.QuerySet.update(open_ones, completed=True, **values) == 1

    def update(self, **kwargs: Any) -> int:
        raise AppendOnly

    def delete(self) -> Any:
        raise AppendOnly


class AuditEntry(models.Model):
    """One write: written before it is carried out, so that none is missing, and completed after.

    `via`: loopback, session, token NAME …; `action`: the verb that it needs, or login and the like; `connector`: ""
    where it concerns none. `before`, `after`: JSON, secrets masked; `changed`: JSON list of the settings that differ,
    secrets among them.
    """

    time_ms = models.BigIntegerField()
    user = models.TextField(default="")
    via = models.TextField(default="")
    address = models.TextField(default="")
    action = models.CharField(max_length=32)
    request = models.TextField(default="")
    connector = models.TextField(default="")
    before = models.TextField(default="null")
    after = models.TextField(default="null")
    changed = models.TextField(default="[]")
    outcome = models.CharField(max_length=16, default=Outcome.UNKNOWN)
    status = models.IntegerField(default=0)
    message = models.TextField(default="")
    completed = models.BooleanField(default=False)

    objects = EntryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [
            models.Index(fields=["-time_ms"], name="audit_time"),
            models.Index(fields=["connector", "-time_ms"], name="audit_connector"),
            models.Index(fields=["user", "-time_ms"], name="audit_user"),
        ]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        raise AppendOnly


def prune(before_ms: int, most: int) -> int:
    """The one exception: entries that are older than the trail is kept for (`history.retention`); how many went."""
    old = AuditEntry.objects.filter(time_ms__lt=before_ms).order_by("time_ms").values_list("pk", flat=True)[:most]
    return models.QuerySet.delete(AuditEntry.objects.filter(pk__in=list(old)))[0]
