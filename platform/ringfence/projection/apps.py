"""Django's registration of the projection."""

from django.apps import AppConfig


class MirrorConfig(AppConfig):
    name = "ringfence.projection"
    label = "mirror"
