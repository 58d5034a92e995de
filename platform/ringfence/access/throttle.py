"""Brute-force protection: delays, counted in the database that all web processes share.

Only failures count: for an account from an address, and from an address in all. Beyond the limit, each failure doubles
the time until the next try is accepted. An account is only delayed for the address that tried, so that nobody can lock
its owner out from elsewhere. Valid tokens and open sessions are never delayed.
"""

import time

from django.db import transaction
from django.db.models import F

from ringfence.access.models import Throttle
from ringfence.access.tokens import digest

PER_ADDRESS = 30
PER_ACCOUNT = 5
LONGEST_SECONDS = 300
FORGOTTEN_MS = 3_600_000
"""After the last failure."""


def keys(address: str, account: str = "") -> dict[str, int]:
    """Return the keys that a try counts for, each with its number of failures without a delay."""
    # Digests, because an account's name is whatever somebody typed: by mistake, perhaps a password.
    limits = {f"address:{digest(address)[:32]}": PER_ADDRESS}
    if account:
        limits[f"account:{digest(f'{account.casefold()} {address}')[:32]}"] = PER_ACCOUNT
    return limits


def delay_seconds(failures: int, free: int) -> int:
    """Return the delay from the last failure to the next try: 1, 2, 4 … s beyond the free ones."""
    return 0 if failures < free else min(LONGEST_SECONDS, 1 << min(failures - free, 16))


def wait_seconds(limits: dict[str, int]) -> int:
    """Return the seconds until the next try is accepted; 0 for now."""
    now = int(time.time() * 1000)
    longest = 0
    for row in Throttle.objects.filter(key__in=limits):
        delay_ms = delay_seconds(row.failures, limits[row.key]) * 1000
        left_ms = min(row.since_ms + delay_ms - now, delay_ms)  # never longer, where a clock was set back
        longest = max(longest, (left_ms + 999) // 1000)
    return longest


def record_failure(limits: dict[str, int]) -> None:
    """Count one failure."""
    now = int(time.time() * 1000)
    with transaction.atomic():
        Throttle.objects.filter(since_ms__lte=now - FORGOTTEN_MS).delete()
        for key in limits:
            Throttle.objects.get_or_create(key=key, defaults={"since_ms": now})
            Throttle.objects.filter(key=key).update(failures=F("failures") + 1, since_ms=now)


def record_success(limits: dict[str, int]) -> None:
    """Forget the account's failures; those of the address stay, or one account would be enough to try all others."""
    Throttle.objects.filter(key__in=[key for key in limits if key.startswith("account:")]).delete()
