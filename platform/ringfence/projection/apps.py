"""The Django application of the projection."""

from django.apps import AppConfig

from ringfence.lock_waits import look_often


class ProjectionConfig(AppConfig):
    name = "ringfence.projection"
    label = "mirror"

    def ready(self) -> None:
        look_often()  # the projection writes more than anybody else, and every process that uses Django has its tables
