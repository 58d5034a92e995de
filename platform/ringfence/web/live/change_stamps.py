"""Values that change with data that has no notifications. They are polled while pages are open."""

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.db.models import Count, Max, Sum

from ringfence.alerts.models import Incident
from ringfence.audit.models import AuditEntry
from ringfence.heartbeats.cluster_view import look
from ringfence.projection.models import TopicPosition

_LAST_ENTRIES = 20


@sync_to_async
def read_projected() -> object:
    """Return a value that changes with every projected record; None while the database is away."""
    try:
        return TopicPosition.objects.aggregate(sum=Sum("applied_offset"))["sum"]
    except DatabaseError:
        return None
    finally:
        close_old_connections()  # this thread serves no request that would do it


@sync_to_async
def read_audit() -> object:
    """Return a value that changes with every audit entry that begins or completes; None while the database is away."""
    try:
        return list(AuditEntry.objects.order_by("-pk").values_list("pk", "completed")[:_LAST_ENTRIES])
    except DatabaseError:
        return None
    finally:
        close_old_connections()


@sync_to_async
def read_vital() -> str:
    try:
        open_now = Incident.objects.filter(resolved_ms=0)
        summary = open_now.aggregate(n=Count("pk"), last=Max("pk"), by=Max("acknowledged_ms"))
        return f"{look.vitals().stamp}|{summary}"
    except DatabaseError:
        return look.vitals().stamp
    finally:
        close_old_connections()
