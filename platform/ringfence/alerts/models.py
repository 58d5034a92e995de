"""Rules, destinations, incidents, and each message with its state; and the records of the config topic that no leader
wrote, stored so that each raises one alert. Times are milliseconds, 0 for never.
"""

import time
from collections.abc import Iterator
from typing import ClassVar, Final
from urllib.parse import urlsplit

from django.db import models
from django.db.models import Q

from ringfence.alerts.encrypted_field import EncryptedTextField
from ringfence.alerts.snapshot import ForeignRecords
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.fencing.name_patterns import EVERYTHING


def now_ms() -> int:
    return int(time.time() * 1000)


class Destination(models.Model):
    """An address for messages. `url` and `secret` are secrets: display only `shown_url`."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16)
    url = EncryptedTextField(default="")
    secret = EncryptedTextField(default="")
    recipients = models.TextField(default="")
    enabled = models.BooleanField(default=True)

    @property
    def shown_url(self) -> str:
        """Scheme and host only: the rest of a Slack address is its password, and other addresses may
        contain one as well.
        """
        if not self.url:
            return ""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}/{HIDDEN}"


class Rule(models.Model):
    """A condition on the connectors that match `pattern`. seconds: how long it must last."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=24)
    pattern = models.CharField(max_length=300, default=EVERYTHING)
    seconds = models.IntegerField(default=60)
    enabled = models.BooleanField(default=True)
    destinations = models.ManyToManyField(Destination, related_name="rules")


class Incident(models.Model):
    """One cause that a rule has found, open until it ends. connector: "" if it concerns all.

    began_ms: when the cause began, before the rule's time had passed; failures: so far. withheld: its first messages
    wait for the end of a silence; report: what was known about the cause, JSON (`alerts.incident_report`).
    """

    rule = models.ForeignKey(Rule, null=True, on_delete=models.SET_NULL, related_name="incidents")
    rule_name = models.CharField(max_length=100)
    kind = models.CharField(max_length=24)
    subject = models.TextField()
    connector = models.TextField(default="")
    summary = models.TextField(default="")
    began_ms = models.BigIntegerField(default=0)
    failures = models.IntegerField(default=0)
    opened_ms = models.BigIntegerField()
    resolved_ms = models.BigIntegerField(default=0)
    acknowledged_ms = models.BigIntegerField(default=0)
    acknowledged_by = models.TextField(default="")
    withheld = models.BooleanField(default=False)
    report = models.TextField(default="{}", db_default="{}")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["rule", "subject"], condition=Q(resolved_ms=0), name="one_open_incident")
        ]
        indexes: ClassVar = [models.Index(fields=["-opened_ms"], name="incident_list")]


class IncidentNote(models.Model):
    """What somebody wrote about an incident while working on it."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="notes")
    time_ms = models.BigIntegerField()
    user = models.TextField(default="")
    text = models.TextField()


class EpisodeRow(models.Model):
    """A failure that spans automatic restarts, see `alerts.conditions`."""

    subject = models.TextField(primary_key=True)
    connector = models.TextField()
    began_ms = models.BigIntegerField()
    failed_ms = models.BigIntegerField()
    failures = models.IntegerField()
    summary = models.TextField()


class ForeignRecord(models.Model):
    """A record of the config topic that no leader of this cluster wrote. Each new leader reports it again."""

    offset = models.BigIntegerField()
    key = models.TextField()
    connector = models.TextField(default="")
    message = models.TextField(default="")
    time_ms = models.BigIntegerField(db_index=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["offset", "key"], name="one_foreign_record")]


class Silence(models.Model):
    """Nothing is sent about `connector` until then; "": about all connectors and the cluster."""

    connector = models.TextField(default="")
    until_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(default=0)
    created_ms = models.BigIntegerField()
    user = models.TextField(default="")
    why = models.TextField(default="")


class Delivery(models.Model):
    """One message to one destination. state: waiting, under way, sent or given up. due_ms: the next try."""

    incident = models.ForeignKey(Incident, null=True, on_delete=models.CASCADE, related_name="deliveries")
    destination = models.ForeignKey(Destination, null=True, on_delete=models.SET_NULL, related_name="deliveries")
    destination_name = models.CharField(max_length=100)
    what = models.CharField(max_length=16)
    body = models.TextField()
    state = models.CharField(max_length=16, default="waiting")
    tries = models.IntegerField(default=0)
    created_ms = models.BigIntegerField()
    due_ms = models.BigIntegerField()
    handed_ms = models.BigIntegerField(default=0)
    ended_ms = models.BigIntegerField(default=0)
    status = models.IntegerField(default=0)
    error = models.TextField(default="")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["state", "due_ms"], name="delivery_due"),
            models.Index(fields=["-created_ms"], name="delivery_list"),
        ]


class Turn(models.Model):
    """A single row: which worker evaluates the rules, and until when."""

    holder = models.TextField(default="")
    until_ms = models.BigIntegerField(default=0)


RECENT_MS: Final = 24 * 3600 * 1000
"""An incident ends if no new record has come for this long, because nothing shows whether it was handled."""


def remember_foreign_record(connector: str, message: str, offset: int, key: str, time_ms: int, **_: object) -> None:
    """Store a record. The receiver of `foreign_record_found`. Every leader reports them at the beginning of its term; a
    record that is already known does not count as new.
    """
    ForeignRecord.objects.get_or_create(
        offset=offset, key=key, defaults={"connector": connector, "message": message, "time_ms": time_ms}
    )


def list_foreign_records(now_ms: int) -> Iterator[ForeignRecords]:
    """Yield the records by connector, back to the last day in which none came."""
    by_connector: dict[str, list[ForeignRecord]] = {}
    for row in ForeignRecord.objects.filter(time_ms__gte=now_ms - RECENT_MS).order_by("time_ms", "offset"):
        by_connector.setdefault(row.connector, []).append(row)
    for connector, rows in by_connector.items():
        more = f" ({len(rows)} such records in the last day)" if len(rows) > 1 else ""
        yield ForeignRecords(connector, len(rows), rows[0].time_ms, rows[-1].message + more)


def prune_foreign_records(before_ms: int) -> None:
    """Delete older records."""
    ForeignRecord.objects.filter(time_ms__lt=before_ms).delete()
