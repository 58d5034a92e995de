"""Removes characters from topics' strings that a database refuses: any client may have written the records."""

import json


def clean(text: str) -> str:
    """Remove NUL, which PostgreSQL refuses, and lone surrogates, which UTF-8 cannot encode."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def loads_clean(packed: str) -> dict[str, str]:
    """Parse a packed object of strings. Lone surrogates, which JSON may contain, become question marks."""
    loaded: dict[str, str] = json.loads(packed)
    if "\\ud" not in packed:
        return loaded
    return {clean(key): clean(value) for key, value in loaded.items()}
