"""Django's registration of what only the database keeps."""

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    name = "ringfence.history"
    label = "history"
