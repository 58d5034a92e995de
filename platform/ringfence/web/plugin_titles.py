"""What people call a connector's class: the title of its plugin, as in the catalog."""

import threading
import time
from contextlib import suppress
from typing import Final

from django.db import DatabaseError

from ringfence.connectors.known_plugins import find_known
from ringfence.history.plugins import read_titles

_SECONDS: Final = 10.0
"""How old the titles may be that a page shows."""


class _Titles:
    """The titles of installed plugins, read at most every few seconds. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._titles: dict[str, str] = {}
        self._until = 0.0

    def read(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() >= self._until:
                with suppress(DatabaseError):  # the former ones are as good: titles do not change
                    self._titles = read_titles()
                self._until = time.monotonic() + _SECONDS
            return self._titles

    def forget(self) -> None:
        self._until = 0.0


installed_titles: Final = _Titles()


def find_title(class_name: str) -> str:
    """Return the title of the class by any of its names; its short name if the plugin has no title."""
    name = class_name.strip()
    if title := installed_titles.read().get(name):
        return title
    plugin = find_known(name)
    return plugin.entry.title if plugin is not None else name.rpartition(".")[2]
