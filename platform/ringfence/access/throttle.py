"""Rate limits on guessing, counted in the database, which all web processes share.

Only failures count. An address or account with too many of them is not even compared with any more, until the window
that began with the first failure is over. Valid tokens and open sessions never get here.
"""

import time

from django.db import transaction
from django.db.models import F

from ringfence.access.models import Throttle
from ringfence.access.tokens import digest

WINDOW_MS = 300_000
PER_ADDRESS = 30
PER_ACCOUNT = 10


def keys(address: str, account: str = "") -> dict[str, int]:
    """What a try counts for, with the limit of each."""
    # Digests: an account's name is whatever somebody typed, a password by mistake for example.
    found = {f"address:{digest(address)[:32]}": PER_ADDRESS}
    if account:
        found[f"account:{digest(account.casefold())[:32]}"] = PER_ACCOUNT
    return found


def wait_seconds(limits: dict[str, int]) -> int:
    """How long to wait before the next try; 0 where one may be made now."""
    now = int(time.time() * 1000)
    waits = [
        row.since_ms + WINDOW_MS - now
        for row in Throttle.objects.filter(key__in=limits)
        if row.failures >= limits[row.key]
    ]
    return max(0, *((wait + 999) // 1000 for wait in waits)) if waits else 0


def failed(limits: dict[str, int]) -> None:
    """Count one failure."""
    now = int(time.time() * 1000)
    with transaction.atomic():
        Throttle.objects.filter(since_ms__lte=now - WINDOW_MS).delete()
        for key in limits:
            Throttle.objects.get_or_create(key=key, defaults={"since_ms": now})
            Throttle.objects.filter(key=key).update(failures=F("failures") + 1)


def succeeded(account: str) -> None:
    """Forget an account's failures; those of the address stay, or one account would be enough to try all others."""
    Throttle.objects.filter(key__in=[key for key in keys("", account) if key.startswith("account:")]).delete()
