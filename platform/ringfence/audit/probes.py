"""Audit entries of what reads other systems and changes nothing: previews, trials, validations, preflight checks.

They run with stored credentials and send requests, so it is recorded who aimed them where: connector class and hosts,
never a value. A form validates with each change, so an act of the same account, class and hosts within some minutes
has one entry. One that ends in another way has its own.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from django.db import Error as DatabaseError
from django.http import HttpRequest

from ringfence.access.client_address import address_of
from ringfence.access.principal import Principal
from ringfence.audit.models import AuditEntry, Outcome
from ringfence.audit.trail import log
from ringfence.fencing.clock import epoch_ms

PREVIEW, TRIAL, VALIDATION, PREFLIGHT, TEST = "preview", "try transforms", "validate", "preflight", "test connection"
FOLDED_SECONDS: Final = 300.0

_LONGEST: Final = 1000
_LONGEST_VALUE: Final = 65_536
_MOST_HOSTS: Final = 10
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.:\-]{0,100}://([^/?#\s\"'\\,;<>]{1,500})")
_HOST: Final = re.compile(r"[A-Za-z0-9_.\-]{1,255}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_NAMES_A_HOST: Final = re.compile(r"(^|[._])(host|hostname|servers|server|broker|brokers|endpoint|account)$")


def hosts_in(config: Mapping[str, str]) -> list[str]:
    """Return the hosts, with ports, that the settings name: in URLs, and in settings for hosts. Without logins, paths
    and queries.
    """
    hosts: set[str] = set()
    for name, value in config.items():
        text = value[:_LONGEST_VALUE]
        for match in _URL.finditer(text):
            hosts.add(match[1].rpartition("@")[2].lower())
        if _NAMES_A_HOST.search(name.lower()):
            hosts.update(each.strip().lower() for each in text.split(",") if _HOST.fullmatch(each.strip()))
    return sorted(host for host in hosts if _HOST.fullmatch(host))[:_MOST_HOSTS]


@contextmanager
def audit(request: HttpRequest, who: Principal, action: str, config: Mapping[str, str]) -> Iterator[None]:
    """Record this act within the block, before it begins, and how it ends: an error's `status` is its outcome."""
    about = {"class": config.get("connector.class", "").strip()[:_LONGEST], "hosts": hosts_in(config)}
    entry: dict[str, Any] = {
        "user": who.name[:_LONGEST],
        "via": who.via,
        "address": address_of(request),
        "action": action,
        "request": f"{request.method} {request.path}"[:_LONGEST],
        "connector": config.get("name", "").strip()[:_LONGEST],
        "after": json.dumps(about, ensure_ascii=False),
    }
    number = None if _is_folded(entry, action) else _begin(entry)
    try:
        yield
    except Exception as error:
        status = getattr(error, "status", 500)
        if number is None and not _is_folded(entry, action, Outcome.of(status)):
            number = _begin(entry)
        _end(number, status, str(getattr(error, "message", "")))
        raise
    _end(number, 200, "")


def _is_folded(entry: Mapping[str, Any], action: str, outcome: Outcome | None = None) -> bool:
    """Return whether there is a recent entry of the same act, that ended in this way. Previews and trials each have
    their own."""
    if action in (PREVIEW, TRIAL):
        return False
    same = {name: entry[name] for name in ("user", "via", "action", "after")}
    since_ms = int((time.time() - FOLDED_SECONDS) * 1000)
    rows = AuditEntry.objects.filter(**same, time_ms__gte=since_ms)
    return (rows if outcome is None else rows.filter(outcome=outcome)).exists()


def _begin(entry: Mapping[str, Any]) -> int:
    return int(AuditEntry.objects.create(time_ms=epoch_ms(), **entry).pk)


def _end(number: int | None, status: int, message: str) -> None:
    if number is None:
        return
    try:
        AuditEntry.objects.complete(number, outcome=Outcome.of(status), status=status, message=message[:_LONGEST])
    except DatabaseError as error:
        # The act is done, and its answer must not deny that: the entry stays incomplete.
        log.error("The audit entry %d could not be completed: %s", number, error)
