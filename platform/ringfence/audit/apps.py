"""The Django application of the audit trail, and its entries of what the projection notices."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "ringfence.audit"
    label = "audit"
    verbose_name = "Audit"

    def ready(self) -> None:
        # Models can only be imported here.
        from ringfence.audit.retention import delete_expired_on_signal
        from ringfence.projection.signals import foreign_record_found, hanging_transaction_ended, housekeeping_due

        housekeeping_due.connect(delete_expired_on_signal, dispatch_uid="retention")
        hanging_transaction_ended.connect(record_ended_transaction, dispatch_uid="ended transactions")
        foreign_record_found.connect(record_foreign_record, dispatch_uid="foreign records")


def record_ended_transaction(connector: str, by: str, message: str, **_: object) -> None:
    """Write an entry. The receiver of `hanging_transaction_ended`."""
    _record("end a hanging transaction", user="ringfence", via=by, connector=connector, message=message)


def record_foreign_record(connector: str, message: str, **_: object) -> None:
    """Write an entry. The receiver of `foreign_record_found`."""
    _record("write to the config topic", user="unknown", via="Kafka", connector=connector, message=message)


def _record(action: str, *, user: str, via: str, connector: str, message: str) -> None:
    # Imported with the first entry: each process that sets Django up loads this module. With the trail it would
    # load Celery and the client of Redis, too, which takes as long as all the rest of that.
    from ringfence.audit import trail
    from ringfence.audit.models import Outcome

    trail.record(action, user=user, via=via, address="", outcome=Outcome.DONE, connector=connector, message=message)
