"""The connection to an S3 server: its settings, to allowed addresses only."""

import re
import socket
from typing import Any, Final
from urllib.parse import urlsplit

from ringfence.connectors import egress, worker_limits
from ringfence.connectors.api import (
    ConnectorError,
    ParsedConfig,
)
from ringfence.connectors.builtin.files.places.base import secret

ACCESS_KEY: Final = "s3.access.key"
SECRET_KEY: Final = "s3.secret.key"  # noqa: S105 - the name of a setting
SESSION_TOKEN: Final = "s3.session.token"  # noqa: S105
REGION: Final = "s3.region"
ENDPOINT: Final = "s3.endpoint.url"
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")


def connect(settings: ParsedConfig) -> Any:
    import s3fs

    region = settings.string(REGION)
    if not _REGION.fullmatch(region):
        raise ConnectorError(f"{REGION} {region!r} is not the name of a region, such as eu-central-1.")
    endpoint = str(settings.get(ENDPOINT) or "").strip() or None
    policy = egress.Policy(worker_limits.current().egress)
    _check_endpoint(endpoint or f"https://s3.{region}.amazonaws.com", policy)
    access_key = settings.get(ACCESS_KEY) or None
    judged: set[str] = set()
    return s3fs.S3FileSystem(
        anon=access_key is None,
        key=access_key,
        secret=secret(settings, SECRET_KEY),
        token=secret(settings, SESSION_TOKEN),
        endpoint_url=endpoint,
        client_kwargs={"region_name": region},
        config_kwargs={
            "connect_timeout": 5,
            "read_timeout": 30,
            "retries": {"max_attempts": 3, "mode": "standard"},
            # With virtual-hosted addresses, a bucket's name could lead to any host.
            "s3": {"addressing_style": "path" if endpoint else "auto"},
            "connector_args": {
                "resolver": _resolver(policy, judged),
                "socket_factory": _socket_factory(policy, judged),
            },
        },
        use_listings_cache=False,
        skip_instance_cache=True,
    )


def _check_endpoint(endpoint: str, policy: egress.Policy) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise ConnectorError(f"{ENDPOINT} must have the form https://host:port.")
    try:
        policy.addresses(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    except egress.EgressDenied as error:
        raise ConnectorError(f"{ENDPOINT}: {error}.") from error
    except (OSError, UnicodeError):
        pass  # the connection reports a name without an address


def _socket_factory(policy: egress.Policy, judged: set[str]) -> Any:
    """Return aiohttp's maker of sockets, which judges what no resolver has: addresses in place of a name."""

    def open_socket(info: Any) -> socket.socket:
        family, kind, protocol, _, where = info
        if where[0] not in judged:
            try:
                policy.addresses(where[0], where[1])
            except egress.EgressDenied as error:
                raise OSError(str(error)) from error
        client_socket = socket.socket(family, kind, protocol)
        client_socket.setblocking(False)
        return client_socket

    return open_socket


def _resolver(policy: egress.Policy, judged: set[str]) -> Any:
    """Return a resolver that looks a name up for each connection, and returns allowed addresses only. It adds them to
    `judged`."""
    from aiohttp.abc import AbstractResolver
    from aiohttp.resolver import ThreadedResolver

    class GuardedResolver(AbstractResolver):
        def __init__(self) -> None:
            self._inner: ThreadedResolver | None = None

        async def resolve(self, host: str, port: int = 0, family: Any = 0) -> Any:
            if self._inner is None:
                self._inner = ThreadedResolver()  # must be created in the loop that uses it
            addresses = await self._inner.resolve(host, port, family)
            try:
                policy.addresses(host, port, lambda *_: [each["host"] for each in addresses])
            except egress.EgressDenied as error:
                raise OSError(str(error)) from error
            judged.update(each["host"] for each in addresses)
            return addresses

        async def close(self) -> None:
            if self._inner is not None:
                await self._inner.close()

    return GuardedResolver()
