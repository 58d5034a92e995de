"""The Django application of the REST API."""

from django.apps import AppConfig
from django.urls import register_converter


class ApiConfig(AppConfig):
    name = "ringfence.api"
    label = "api"

    def ready(self) -> None:
        """Register the path converter, which the routes of the API and the pages use."""
        from ringfence.api.paths import NameConverter  # beside the middleware, which imports models

        register_converter(NameConverter, "name")
