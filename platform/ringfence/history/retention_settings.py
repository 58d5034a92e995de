"""The retention of data that only the database has, from the workers' environment."""

import os

from ringfence.fencing.errors import Invalid

DEFAULTS = {"RINGFENCE_KEEP_VERSIONS": 100, "RINGFENCE_KEEP_DELETED_DAYS": 30, "RINGFENCE_KEEP_AUDIT_DAYS": 365}
"""Versions per connector; days for the data of a deleted connector; days for the audit trail. 0: forever."""


def limit_of(name: str) -> int:
    """Return a setting's value. Raises `Invalid`."""
    text = os.environ.get(name, "").strip() or str(DEFAULTS[name])
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise Invalid(f"{name}={text}: a non-negative integer is expected, 0 for no limit")
    return int(text)


def check() -> None:
    """Raise `Invalid` for an invalid setting, before anything depends on it."""
    for name in DEFAULTS:
        limit_of(name)
