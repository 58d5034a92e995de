"""Django's registration of what only the database keeps."""

from django.apps import AppConfig


class HistoryConfig(AppConfig):
    name = "ringfence.history"
    label = "history"

    def ready(self) -> None:
        from ringfence.history.versions import keep_from_signal  # its models can be imported only now
        from ringfence.projection.signals import configurations_read

        configurations_read.connect(keep_from_signal, dispatch_uid="versions")
