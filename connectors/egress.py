"""Where configurations may send connectors to: registries, token issuers, other Kafka clusters (`egress.allow`).

Entries, separated by commas, each with `:port` or `:from-to` behind it where only those ports are meant:
`public`, `private` (RFC 1918 and the like), `loopback` (the worker's own machine), a network (`10.1.0.0/16`), an
address (`[fd00::1]:443`), a host name, `*.example.com`. An address that a name resolves to must be allowed, or the name
itself. Link-local addresses and those where clouds keep credentials are never allowed, whatever the list says.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable
from typing import Final

EGRESS_ALLOW: Final = "egress.allow"
DEFAULT: Final = "public,private"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Iterable[str]]

_NEVER: Final = tuple(
    map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32"))
)
_PORTS: Final = re.compile(
    r"^(?P<host>\[[^\]]+\](?:/\d+)?|[^:]*|[^:]*:[^:]*:.*?)(?::(?P<low>\d+)(?:-(?P<high>\d+))?)?$"
)
_CLASSES: Final = frozenset({"public", "private", "loopback"})


class Refused(Exception):
    """It may not be connected to. The message is for people."""


def plain(text: str) -> Address:
    """An address; one of IPv4 in the clothes of IPv6 is that of IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def never(address: Address) -> bool:
    """Link-local, multicast, unspecified, or a cloud's metadata service."""
    return address.is_multicast or address.is_unspecified or any(address in network for network in _NEVER)


def kind(address: Address) -> str:
    """public, private or loopback."""
    if address.is_loopback:
        return "loopback"
    return "public" if address.is_global else "private"


class Policy:
    """What `egress.allow` says. Raises ValueError for an entry that cannot be read."""

    def __init__(self, text: str) -> None:
        self._entries = [_entry(part.strip()) for part in text.split(",") if part.strip()]

    def allows(self, host: str, address: Address, port: int) -> bool:
        return not never(address) and any(
            low <= port <= high and matches(host.lower().rstrip("."), address) for matches, low, high in self._entries
        )

    def addresses(self, host: str, port: int, resolve: Resolve | None = None) -> list[str]:
        """Where the name leads to, all of it allowed. Raises `Refused`, and OSError where it leads nowhere."""
        found = list(dict.fromkeys((resolve or look_up)(host.strip("[]"), port)))
        for each in found:
            if not self.allows(host.strip("[]"), plain(each), port):
                where = f"{host}:{port}" if each == host.strip("[]") else f"{host}:{port} ({each})"
                raise Refused(
                    f"Connections to {where} are not allowed by the worker's {EGRESS_ALLOW}: add its name, address or "
                    "network there, unless it is one that never is allowed (link-local, metadata services)"
                )
        return found


def look_up(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _entry(text: str) -> tuple[Callable[[str, Address], bool], int, int]:
    found = _PORTS.match(text)
    if found is None:
        raise ValueError(f"{EGRESS_ALLOW}: {text!r} cannot be read")
    host = found["host"].lower()
    low = int(found["low"] or 0)
    high = int(found["high"] or found["low"] or 65535)
    if host in _CLASSES:
        return lambda _, address: kind(address) == host, low, high
    try:
        network = ipaddress.ip_network(host.replace("[", "").replace("]", ""), strict=False)
        return lambda _, address: address in network, low, high
    except ValueError:
        pass
    if not re.fullmatch(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", host):
        raise ValueError(
            f"{EGRESS_ALLOW}: {text!r} is not a network, an address, a host name, public, private or loopback"
        )
    if host.startswith("*."):
        return lambda name, _: name.endswith(host[1:]), low, high
    return lambda name, _: name == host, low, high


def check_servers(policy: Policy, servers: str) -> None:
    """`host:port,…`, as in bootstrap.servers. Raises `Refused`; a name that leads nowhere is the client's matter."""
    for server in servers.split(","):
        host, colon, port = server.strip().rpartition(":")
        if not colon or not port.isdecimal():
            continue
        try:
            policy.addresses(host, int(port))
        except (OSError, UnicodeError):
            continue
