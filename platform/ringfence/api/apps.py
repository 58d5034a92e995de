"""Django's registration of the REST API."""

from django.apps import AppConfig
from django.urls import register_converter

from ringfence.api.converters import NameConverter


class ApiConfig(AppConfig):
    name = "ringfence.api"
    label = "api"

    def ready(self) -> None:
        """Routes of the API and of the pages both use the converter."""
        register_converter(NameConverter, "name")
