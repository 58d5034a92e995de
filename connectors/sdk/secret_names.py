"""Settings that are treated as secrets because of their names, regardless of the plugin's definition."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from ringfence.connectors.api.config_types import HIDDEN

_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|(?<![a-z])(pass|pwd)(?![a-z])|secret|token(?!\.endpoint\.url)|credential(?!s\.client\.id)|sasl\.jaas\.config|private[._-]?key|api[._-]?key|access[._-]?key|"
    r"basic\.auth\.user\.info|ssl\.keystore\.key|ssl\.key\.pem",
    re.IGNORECASE,
)
_SHORTEST = 4
"""Shorter values are too common to be searched for in texts."""


@lru_cache(maxsize=4096)
def secret_by_name(key: str) -> bool:
    """Return whether a setting with this name is treated as a secret."""
    return bool(_SECRET_NAME.search(key))


def hiding(config: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that removes the values of such settings from texts."""
    secrets = {value for key, value in config.items() if len(value) >= _SHORTEST and secret_by_name(key)}
    values = sorted(secrets, key=len, reverse=True)

    def hide(text: str) -> str:
        for value in values:
            text = text.replace(value, HIDDEN)
        return text

    return hide
