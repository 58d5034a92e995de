"""The routes of the web process."""

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver


def routes(patterns: Any = None, prefix: str = "") -> Iterator[str]:
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(entry, URLResolver):
            yield from routes(entry.url_patterns, prefix + str(entry.pattern))
        elif isinstance(entry, URLPattern):
            yield prefix + str(entry.pattern)


def concrete(route: str) -> str:
    for converter in ("<name:name>", "<int:task>", "<int:number>", "<str:action>", "<str:panel>", "<str:theme>"):
        route = route.replace(converter, "0")
    return f"/{route}"
