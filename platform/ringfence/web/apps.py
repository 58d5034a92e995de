"""The Django application of the pages."""

from django.apps import AppConfig


class WebConfig(AppConfig):
    name = "ringfence.web"
    label = "web"
