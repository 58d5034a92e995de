"""Writes reported hanging transactions as rows: those that remain, a count, and an audit entry for each."""

from django.db.models import F

from ringfence.fencing.topics.events import Event as Report
from ringfence.projection.models import Connector, HangingTransaction, pack
from ringfence.projection.progress_reports import number, text
from ringfence.projection.signals import hanging_transaction_ended

_NUMBERS = ("partition", "producer_id", "epoch", "start_offset", "last_ms")
_TEXTS = ("cluster", "topic", "transactional_id", "why_not")


def write(report: Report) -> None:
    """Write a report. Inside the transaction that has applied the events before it."""
    if text(report, "stage") == "ended":
        _mark_ended(report)
        return
    left = report.get("hanging")
    HangingTransaction.objects.all().delete()
    HangingTransaction.objects.bulk_create(
        HangingTransaction(
            connectors=pack(row.get("connectors") or []),
            **{name: number(row, name) for name in _NUMBERS},
            **{name: text(row, name) for name in _TEXTS},
        )
        for row in (left if isinstance(left, list) else ())
    )


def _mark_ended(report: Report) -> None:
    connector = text(report, "connector")
    Connector.objects.filter(name=connector).update(hanging_ended_total=F("hanging_ended_total") + 1)
    HangingTransaction.objects.filter(
        topic=text(report, "topic"), partition=number(report, "partition"), producer_id=number(report, "producer_id")
    ).delete()
    hanging_transaction_ended.send(
        sender=None, connector=connector, by=text(report, "by"), message=text(report, "message")[:1000]
    )
