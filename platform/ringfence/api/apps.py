"""The Django application of the REST API."""

from django.apps import AppConfig
from django.urls import register_converter

from ringfence.api.path_converters import NameConverter


class ApiConfig(AppConfig):
    name = "ringfence.api"
    label = "api"

    def ready(self) -> None:
        """Register the path converter, which the routes of the API and the pages use."""
        register_converter(NameConverter, "name")
