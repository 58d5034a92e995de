"""The Django application of the heartbeats."""

from django.apps import AppConfig


class HeartbeatsConfig(AppConfig):
    name = "ringfence.heartbeats"
    label = "heartbeats"
