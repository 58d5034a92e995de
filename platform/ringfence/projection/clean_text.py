"""Strings from topics, made fit for a database: anybody may have written those records."""

import json


def clean(text: str) -> str:
    """Without NUL, which PostgreSQL refuses, and without half surrogate pairs, which are no UTF-8."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def loads_clean(packed: str) -> dict[str, str]:
    """A packed object of strings; half surrogate pairs, which JSON can carry, become question marks."""
    loaded: dict[str, str] = json.loads(packed)
    if "\\ud" not in packed:
        return loaded
    return {clean(key): clean(value) for key, value in loaded.items()}
