"""The Django application of the audit trail."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "ringfence.audit"
    label = "audit"
    verbose_name = "Audit"

    def ready(self) -> None:
        # Models can only be imported here.
        from ringfence.audit.receivers import record_ended_transaction, record_foreign_record
        from ringfence.audit.retention import delete_expired_on_signal
        from ringfence.projection.signals import foreign_record_found, hanging_transaction_ended, housekeeping_due

        housekeeping_due.connect(delete_expired_on_signal, dispatch_uid="retention")
        hanging_transaction_ended.connect(record_ended_transaction, dispatch_uid="ended transactions")
        foreign_record_found.connect(record_foreign_record, dispatch_uid="foreign records")
