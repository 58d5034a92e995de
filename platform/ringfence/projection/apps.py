"""The Django application of the projection."""

from django.apps import AppConfig


class ProjectionConfig(AppConfig):
    name = "ringfence.projection"
    label = "mirror"
