"""The hosts that configurations may connect to: registries, token issuers, other Kafka clusters (`egress.allow`).

Entries are separated by commas. A suffix `:port` or `:from-to` limits an entry to these ports: `public`, `private` (RFC
1918 and similar), `loopback` (the worker's own machine), a network (`10.1.0.0/16`), an address (`[fd00::1]:443`), a
host name, `*.example.com`. Either an address that a name resolves to must be allowed, or the name itself. Link-local
addresses and clouds' metadata services, which have credentials, are never allowed.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ringfence.connectors.sdk import own_listeners

EGRESS_ALLOW: Final = "egress.allow"
EGRESS_DENY: Final = "egress.deny"
DEFAULT: Final = "public,private"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Iterable[str]]

_NEVER: Final = tuple(
    map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32"))
)
_PORTS: Final = re.compile(
    r"^(?P<host>\[[^\]]+\](?:/\d+)?|[^:]*|[^:]*:[^:]*:.*?)(?::(?P<low>\d+)(?:-(?P<high>\d+))?)?$"
)
_HOST: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]*[a-z0-9_]")
_CLASSES: Final = frozenset({"public", "private", "loopback"})


class EgressDenied(Exception):
    """The connection is not allowed. The message is for users."""


def parse_address(text: str) -> Address:
    """Parse an address; an IPv4-mapped IPv6 address becomes IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def is_forbidden(address: Address) -> bool:
    """Return whether the address is link-local, multicast, unspecified, or a cloud's metadata service."""
    return address.is_multicast or address.is_unspecified or any(address in network for network in _NEVER)


def classify(address: Address) -> str:
    """Return public, private or loopback."""
    if address.is_loopback:
        return "loopback"
    return "public" if address.is_global else "private"


class Policy:
    """The rules of `egress.allow`. Raises ValueError for an invalid entry."""

    def __init__(self, text: str) -> None:
        self._entries = [_entry(part.strip()) for part in text.split(",") if part.strip()]

    def allows(self, host: str, address: Address, port: int) -> bool:
        return not is_forbidden(address) and any(
            each.low <= port <= each.high and each.matches(host.lower().rstrip("."), address) for each in self._entries
        )

    @property
    def has_wildcards(self) -> bool:
        """Whether an entry is `*.` and the end of a name."""
        return any(each.name.startswith("*.") for each in self._entries)

    def names_in(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the host names that entries allow by their name: those of entries, and those in texts that match
        `*.example.com`.
        """
        names = [each.name for each in self._entries if each.name]
        yield from (each for each in names if not each.startswith("*."))
        endings = tuple(each[1:] for each in names if each.startswith("*."))
        if endings:
            for text in texts:
                yield from (host for host in _HOST.findall(text.lower()) if host.endswith(endings))

    def addresses(self, host: str, port: int, resolve: Resolve | None = None) -> list[str]:
        """Resolve a name. Returns addresses that are all allowed. Raises `EgressDenied`, and OSError if it has
        no address.
        """
        hosts = list(dict.fromkeys((resolve or look_up)(host.strip("[]"), port)))
        for each in hosts:
            where = f"{host}:{port}" if each == host.strip("[]") else f"{host}:{port} ({each})"
            if own_listeners.is_own(parse_address(each), port):
                raise EgressDenied(describe_own(where))
            if not self.allows(host.strip("[]"), parse_address(each), port):
                raise EgressDenied(
                    f"Connections to {where} are not allowed by the worker's {EGRESS_ALLOW}: add its name, address or "
                    "network there, unless it is one that is never allowed (link-local, metadata services)"
                )
        return hosts


def describe_own(where: str) -> str:
    """Return the refusal of a listener of the platform."""
    return (
        f"Connections to {where} are never allowed, whatever {EGRESS_ALLOW} says: it is a part of this platform, or "
        f"the worker's {EGRESS_DENY} names it. Give the address of the system that the connector is to reach"
    )


def look_up(host: str, port: int) -> list[str]:
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class _Entry(NamedTuple):
    """matches: whether it allows a host name, or an address. name: that of hosts, "" for an entry of addresses."""

    matches: Callable[[str, Address], bool]
    low: int
    high: int
    name: str = ""


def _entry(text: str) -> _Entry:
    match = _PORTS.match(text)
    if match is None:
        raise ValueError(f"{EGRESS_ALLOW}: {text!r} is malformed")
    host = match["host"].lower()
    low = int(match["low"] or 0)
    high = int(match["high"] or match["low"] or 65535)
    if host in _CLASSES:
        return _Entry(lambda _, address: classify(address) == host, low, high)
    try:
        network = ipaddress.ip_network(host.replace("[", "").replace("]", ""), strict=False)
        return _Entry(lambda _, address: address in network, low, high)
    except ValueError:
        pass
    if not re.fullmatch(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", host):
        raise ValueError(
            f"{EGRESS_ALLOW}: {text!r} is not a network, an address, a host name, public, private or loopback"
        )
    if host.startswith("*."):
        return _Entry(lambda name, _: name.endswith(host[1:]), low, high, host)
    return _Entry(lambda name, _: name == host, low, high, host)


def check_servers(policy: Policy, servers: str) -> None:
    """Check `host:port,…`, as in bootstrap.servers. Raises `EgressDenied`; a name without an address is left to
    the client.
    """
    for server in servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or not port.isdecimal():
            continue
        try:
            policy.addresses(host, int(port))
        except (OSError, UnicodeError):
            continue
