"""The Django application of data that only the database has."""

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    name = "ringfence.history"
    label = "history"

    def ready(self) -> None:
        from ringfence.history.versions import keep_from_signal  # its models can only be imported here
        from ringfence.projection.signals import configurations_read

        configurations_read.connect(keep_from_signal, dispatch_uid="versions")
