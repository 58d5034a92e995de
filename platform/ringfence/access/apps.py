"""Django's registration of grants, tokens and rate limits."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "ringfence.access"
    label = "access"
    verbose_name = "Access"
