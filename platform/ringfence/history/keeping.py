"""How long the database keeps what only it has, from the environment of the workers."""

import os

from ringfence.fencing.errors import Invalid

DEFAULTS = {"RINGFENCE_KEEP_VERSIONS": 100, "RINGFENCE_KEEP_DELETED_DAYS": 30, "RINGFENCE_KEEP_AUDIT_DAYS": 365}
"""Versions of each connector; days for what is left of a deleted one; days for the audit trail. 0: for ever."""


def limit_of(name: str) -> int:
    """A setting's value. Raises `Invalid`."""
    given = os.environ.get(name, "").strip() or str(DEFAULTS[name])
    if not (given.isascii() and given.isdigit() and len(given) < 7):
        raise Invalid(f"{name}={given}: a non-negative integer is expected, 0 for no limit")
    return int(given)


def check() -> None:
    """Raises `Invalid` for a setting that cannot be meant, before anything depends on it."""
    for name in DEFAULTS:
        limit_of(name)
