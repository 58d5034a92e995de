"""A plugin's documentation: the README.md beside its module, else its class's docstring."""

import inspect
from functools import lru_cache
from pathlib import Path
from typing import Final

_LIMIT: Final = 8000
_NAME: Final = "README.md"


@lru_cache(maxsize=256)
def documentation_of(cls: type) -> str:
    """Return plain text or Markdown; "" if there is none."""
    try:
        text = (Path(inspect.getfile(cls)).parent / _NAME).read_text(encoding="utf-8")
    except (OSError, TypeError, UnicodeDecodeError):  # created in memory, or inside an archive
        text = ""
    if not text.lower().find(cls.__name__.removesuffix("Connector").lower()) >= 0:
        text = ""  # the README of a folder with many plugins is about something else
    return (text or inspect.cleandoc(cls.__doc__ or ""))[:_LIMIT]
