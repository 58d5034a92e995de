"""Parses the environment for the settings: addresses and database URLs, as pure functions."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

SQLITE = "ringfence.sqlite"
"""Django's name of our backend (`ringfence/sqlite/base.py`)."""
SQLITE_BUSY_SECONDS = 20
REQUEST_BUSY_SECONDS = 4
"""Seconds that a request waits for a lock on SQLite's file, which a process frozen during a write holds."""
SHORTEST_TOKEN = 24
PROXY_SETTINGS = ("RINGFENCE_BEHIND_PROXY", "RINGFENCE_SECURE_COOKIES", "RINGFENCE_ALLOWED_HOSTS")

# WAL lets pages read while the projection writes; NORMAL is enough, since the rows can be rebuilt from Kafka.
# The last one: `lock_waits` waits instead.
_SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16000; PRAGMA busy_timeout=0;"

# A server whose machine is gone closes no connection, and Linux would believe in it for a quarter of an hour, or for
# two hours if nothing was sent.
_LOST_SERVERS = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}

# A connection also serves the next requests of its thread; a dead one is replaced.
_KEPT = {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}


class NoLogin(StrEnum):
    """Who on this machine needs no login. An empty string in the settings: no one."""

    SAME_USER = "same-user"
    """Only processes of this process's user."""
    MACHINE = "machine"
    """Every user of this machine."""


def proxy_setting(environment: Mapping[str, str]) -> str:
    """Return the first setting that indicates a proxy in front of the server, so that a login is
    required; "" for none.
    """
    return next((name for name in PROXY_SETTINGS if environment.get(name, "").strip()), "")


def host_of(address: str) -> str:
    """The host of `host:port`, brackets kept: `[::1]:8083` gives `[::1]`."""
    host, colon, _ = address.rpartition(":")
    return host if colon and not host.endswith(":") else address


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach `host:port`. An empty host means every interface."""
    host = host_of(address).strip("[]")
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server_token(token: str) -> str:
    """Return RINGFENCE_TOKEN. Raises ImproperlyConfigured if it is easy to guess, because it may do
    everything, forever.
    """
    if token and len(token) < SHORTEST_TOKEN:
        raise ImproperlyConfigured(
            f"RINGFENCE_TOKEN has {len(token)} characters, and at least {SHORTEST_TOKEN} are required, because it may "
            "do everything. Create one with: openssl rand -hex 24"
        )
    return token


def idle_minutes(text: str) -> int:
    """Parse RINGFENCE_SESSION_IDLE_MINUTES; 0 for no limit. Raises ImproperlyConfigured."""
    if not text:
        return 12 * 60
    if not text.isdecimal():
        raise ImproperlyConfigured(
            f"RINGFENCE_SESSION_IDLE_MINUTES={text}: an integer is expected, such as 60; 0: no limit"
        )
    return int(text)


def session_hours(text: str) -> int:
    """Parse RINGFENCE_SESSION_HOURS. Raises ImproperlyConfigured."""
    if not text:
        return 14 * 24
    if not text.isdecimal() or not 0 < int(text) <= 10_000:
        raise ImproperlyConfigured(
            f"RINGFENCE_SESSION_HOURS={text}: an integer from 1 to 10000 is expected, such as 12"
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits for each web process: on accounts' concurrent requests (`ringfence.quotas`), on connections
    (`web/door.py`), and on event streams (`web/live/events_view.py`).
    """

    connections: int = 1000
    connections_per_address: int = 300
    streams_per_session: int = 10
    streams_per_account: int = 50
    streams_total: int = 300
    queries_per_account: int = 12
    queries_total: int = 24
    commands_per_account: int = 16
    commands_total: int = 24
    requests_per_second: int = 30
    requests_burst: int = 300


MOST_UNDER_WAY = 48
"""The most queries and commands together: they occupy threads of the web process, and 16 are left for
pages and health.
"""


def request_limits(environment: Mapping[str, str]) -> RequestLimits:
    """Parse RINGFENCE_QUERIES_PER_ACCOUNT and so on, named like the fields. Raises ImproperlyConfigured."""
    limits_by_name = {}
    for field in fields(RequestLimits):
        name = f"RINGFENCE_{field.name.upper()}"
        text = environment.get(name, "").strip()
        if text and not (text.isdecimal() and 0 < int(text) < 1_000_000):
            raise ImproperlyConfigured(f"{name}={text}: an integer of at least 1 is expected")
        if text:
            limits_by_name[field.name] = int(text)
    limits = RequestLimits(**limits_by_name)
    for kind, each, total in (
        ("QUERIES", limits.queries_per_account, limits.queries_total),
        ("COMMANDS", limits.commands_per_account, limits.commands_total),
    ):
        if each > total:
            raise ImproperlyConfigured(
                f"RINGFENCE_{kind}_PER_ACCOUNT={each} is more than RINGFENCE_{kind}_TOTAL={total}: lower one or "
                "raise the other"
            )
    if (total := limits.queries_total + limits.commands_total) > MOST_UNDER_WAY:
        raise ImproperlyConfigured(
            f"RINGFENCE_QUERIES_TOTAL and RINGFENCE_COMMANDS_TOTAL add up to {total}: at most {MOST_UNDER_WAY} are "
            "possible in one web process. Lower them, and start more web processes"
        )
    return limits


def database(url: str) -> dict[str, object]:
    """Return Django's database settings for a URL. Raises ImproperlyConfigured with the expected format."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        path = unquote(parts.path.removeprefix("/")) if not parts.path.startswith("//") else unquote(parts.path[1:])
        return {
            "ENGINE": SQLITE,
            "NAME": str(Path(path or "ringfence.sqlite3").absolute()),
            "OPTIONS": {
                "timeout": SQLITE_BUSY_SECONDS,
                # A transaction that starts reading and then writes cannot wait for another writer: it fails at once.
                "transaction_mode": "IMMEDIATE",
                "init_command": _SQLITE_PRAGMAS,
            },
        }
    if parts.scheme in ("postgres", "postgresql"):
        hosts, ports = _servers(parts.netloc.rpartition("@")[2])
        # Of several servers, use the primary: after a fail-over, the others are standbys, or away. One that is away is
        # tried for each new connection.
        several = {"target_session_attrs": "read-write", "connect_timeout": "3"} if "," in hosts else {}
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")) or "ringfence",
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": hosts,
            "PORT": ports,
            **_KEPT,
            "OPTIONS": {**_LOST_SERVERS, **several, **dict(parse_qsl(parts.query))},
        }
    raise ImproperlyConfigured(
        "RINGFENCE_DATABASE_URL must be sqlite:///path or postgres://user:password@host:port/name, "
        f"and its scheme is {parts.scheme!r}."
    )


def serve_requests(database: dict[str, Any]) -> None:
    """Change Django's database settings for a process that answers requests: a lock is awaited no longer than a client
    waits for its answer, and a thread keeps its connection for its next request. Elsewhere threads come and go.
    """
    if database["ENGINE"] == SQLITE:
        database["OPTIONS"]["timeout"] = REQUEST_BUSY_SECONDS
        database.update(_KEPT)


def _servers(servers: str) -> tuple[str, str]:
    """Convert `a:5432,b` to libpq's format: `a,b` and `5432,`. Raises ImproperlyConfigured."""
    hosts, ports = [], []
    for server in servers.split(","):
        host, colon, port = server.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = server, ""
        if port and not port.isdecimal():
            raise ImproperlyConfigured(f"RINGFENCE_DATABASE_URL: {server!r} is not host:port")
        hosts.append(unquote(host.strip("[]")))
        ports.append(port)
    return ",".join(hosts), ",".join(ports) if any(ports) else ""
