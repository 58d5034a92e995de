"""Audit entries: added, completed once, and after that never changed or deleted through Django."""

from enum import StrEnum
from typing import Any, ClassVar

from django.db import models

from ringfence.fencing import request_context


class Outcome(StrEnum):
    """How a write ended. UNKNOWN: it was requested, and its outcome is unknown (or not known yet)."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @staticmethod
    def of(status: int) -> "Outcome":
        """Return the outcome for an HTTP status. 500 and 504 answer commands with an unknown outcome;
        503 changed nothing.
        """
        if status < 400:
            return Outcome.DONE
        if status in (401, 403, 429):
            return Outcome.REFUSED
        return Outcome.UNKNOWN if status in (500, 502, 504) else Outcome.FAILED


class AppendOnly(Exception):
    """An attempt to change or delete an audit entry."""

    def __init__(self) -> None:
        super().__init__("Audit entries are never changed or deleted: add another one that corrects it.")


class EntryQuerySet(models.QuerySet["AuditEntry"]):
    """Allows reading, adding, and completing incomplete entries."""

    def complete(self, number: int, **values: Any) -> bool:
        """Fill in the result of a write, once. Returns False if that was already done."""
        open_ones = self.filter(pk=number, completed=False)
        return models.QuerySet.update(open_ones, completed=True, **values) == 1

    def update(self, **kwargs: Any) -> int:
        raise AppendOnly

    def delete(self) -> Any:
        raise AppendOnly


class AuditEntry(models.Model):
    """One write. The entry is written before the write is carried out, so that none is missing, and completed
    afterwards.

    via: loopback, session, token NAME …; action: the required permission, or login and the like; connector: "" if it
    concerns none; request_id: of the HTTP request, as in the logs. before, after: JSON with masked secrets; changed:
    JSON list of the settings that differ, including secret ones.
    """

    time_ms = models.BigIntegerField()
    user = models.TextField(default="")
    via = models.TextField(default="")
    address = models.TextField(default="")
    action = models.CharField(max_length=32)
    request = models.TextField(default="")
    request_id = models.CharField(max_length=100, default="", db_default="")
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
        self.request_id = self.request_id or request_context.current().id
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        raise AppendOnly


def prune(before_ms: int, most: int) -> int:
    """The only exception: delete entries older than the retention time (`audit.retention`). Returns how many."""
    old = AuditEntry.objects.filter(time_ms__lt=before_ms).order_by("time_ms").values_list("pk", flat=True)[:most]
    return models.QuerySet.delete(AuditEntry.objects.filter(pk__in=list(old)))[0]
