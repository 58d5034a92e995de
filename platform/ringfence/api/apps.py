"""Django's registration of the REST API."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "ringfence.api"
    label = "api"
