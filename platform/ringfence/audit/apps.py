"""Django's registration of the audit trail."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "ringfence.audit"
    label = "audit"
    verbose_name = "Audit"
