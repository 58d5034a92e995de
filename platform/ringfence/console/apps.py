"""The Django application of the console."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "ringfence.console"
    label = "console"
