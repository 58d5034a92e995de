"""The Django application of the alerts."""

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "ringfence.alerts"
    label = "alerts"

    def ready(self) -> None:
        # Models can only be imported here.
        from ringfence.alerts.models import remember_foreign_record
        from ringfence.projection.signals import foreign_record_found

        foreign_record_found.connect(remember_foreign_record, dispatch_uid="foreign records of alerts")
