"""Django's registration of the alerts."""

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "ringfence.alerts"
    label = "alerts"
