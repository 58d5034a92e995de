"""Names that the form of a new connector proposes: the connector's, after what it reads, and its topic's. Pure."""

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from ringfence.web.new.layout import TOPIC_NAMES

_SAYING: Final = (
    "database.dbname",
    "database.names",
    "database.include.list",
    "connection.url",
    "rest.url",
    "url",
    "file",
    "topics",
    "data.source",
)
"""Settings that say what is read, the most telling first."""
_MOST: Final = 40
_KIND: Final = re.compile(r"(Source)?(Connector)?$")
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def propose_name(config: Mapping[str, str], class_name: str, is_free: Callable[[str], bool]) -> str:
    """Return a name for a connector with these settings; "" if none of them is free."""
    slug_of_source = next((slug for name in _SAYING if (slug := _slug(_last_part(config.get(name, ""))))), "")
    name = slug_of_source or _slug("-".join(_WORDS.split(_KIND.sub("", class_name.rpartition(".")[2]))))
    candidates = (name, *(f"{name}-{number}" for number in range(2, 100)))
    return next((each for each in candidates if each and is_free(each)), "")


def _last_part(value: str) -> str:
    """Return the end of a path, the database of an address, or the first of a list, without its ending."""
    text = value.strip().partition(",")[0].rstrip("/")
    if "://" in text:
        parts = urlsplit(text)
        text = parts.path.rstrip("/") or parts.netloc.rpartition("@")[2].partition(":")[0]
    part = text.rpartition("/")[2]
    return part.partition(".")[0] or part


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_MOST].strip("-")


def topic_suffix(sample: Mapping[str, str]) -> str:
    """Return what stands between a topic prefix and the name of a table, by the plugin's sample configuration."""
    value = next((sample[name] for name in TOPIC_NAMES if name in sample), "")
    return value[-1:] if value[-1:] in (".", "-", "_") else ""
